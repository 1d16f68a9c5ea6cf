// Rules on PyTorch's account of a device: capacity, free, allocated, reserved, other processes.

#include <algorithm>
#include <cstdlib>

#include "explain/conclude/phase.h"
#include "explain/read/number.h"

#include "explain/conclude/cause_impl.h"

namespace plimsoll::explain {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;
// A context and its libraries, as drivers since CUDA 9 make them.
constexpr int64_t kContextBytes = 900 * kMiB;
constexpr int64_t kRounding = 16 * kMiB;  // of figures in GiB with two digits

bool is_torch(const Case& found) {
  return found.main.family >= Family::kTorchCuda2x &&
         found.main.family <= Family::kTorchCudaMallocAsync;
}

std::optional<Diagnosis> allocation_limit(const Case& found) {
  const Finding& main = found.main;
  if (main.family != Family::kTorchXpu || !main.bytes) return std::nullopt;
  const bool stated = main.note == "driver_limit";
  const bool room = main.amounts.capacity && *main.amounts.capacity > *main.bytes &&
                    main.amounts.held.value_or(0) + *main.bytes <= *main.amounts.capacity;
  if (!stated && !(room && *main.bytes >= 4 * kGiB)) return std::nullopt;
  Diagnosis result = reading(
      found, Cause::kSingleAllocationLimit, stated ? 0.95 : 0.8,
      "One allocation of " + size_words(main.bytes) + " was refused on a device of " +
          size_words(main.amounts.capacity) + " with " + size_words(main.amounts.in_use) +
          " in use: the driver refuses single allocations of 4 GiB and more, whatever is there.");
  result.inferred = !stated;
  return result;
}

// What the caching allocator takes from the device for a request: small ones share 2 MiB, middle
// ones 20 MiB, large ones are rounded up to 2 MiB.
int64_t taken_for(int64_t request) {
  if (request <= kMiB) return 2 * kMiB;
  if (request < 10 * kMiB) return 20 * kMiB;
  return (request + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
}

std::optional<Diagnosis> enough_free(const Case& found) {
  const Amounts& amounts = found.main.amounts;
  if (!amounts.free || !found.main.bytes || *found.main.bytes > (int64_t{1} << 60)) {
    return std::nullopt;
  }
  // A little more than the request may be free and still not to be had: pages, a growing context.
  const int64_t taken = taken_for(*found.main.bytes);
  if (*amounts.free < taken + std::max(64 * kMiB, taken / 10)) return std::nullopt;
  return reading(found, Cause::kFreeExceedsRequest, 0.8,
                 size_words(amounts.free) + " were free and " + size_words(found.main.bytes) +
                     " were refused, so it is no plain shortage: a per-process limit, free memory "
                     "that is not in one piece, another process that took and gave back in "
                     "between, or a driver in trouble.");
}

std::optional<Diagnosis> tiny_card(const Case& found) {
  const Amounts& amounts = found.main.amounts;
  constexpr int64_t kTiny = 2 * kGiB + 200 * kMiB;
  if (!amounts.capacity || *amounts.capacity > kTiny || *amounts.capacity <= 0) return std::nullopt;
  return reading(found, Cause::kGpuTooSmall, 0.75,
                 "The card has " + size_words(amounts.capacity) +
                     " in all, of which context, libraries and desktop take a good part before the "
                     "first tensor.");
}

// What is neither free nor PyTorch's, where no process is listed.
int64_t unaccounted(const Case& found) {
  const Amounts& amounts = found.main.amounts;
  if (!amounts.capacity || !amounts.held || !amounts.free) return 0;
  if (*amounts.free == 0) return 0;  // what Windows says, whatever is there
  if (!found.main.processes.empty() || found.main.process_bytes) return 0;
  return *amounts.capacity - *amounts.free - *amounts.held;
}

// Inside a container the list of processes names this one by a number that it does not know itself;
// that entry is what PyTorch holds plus a context, so the smallest one that is large enough, but
// for rounding. The list's end: there is none.
std::vector<ProcessShare>::const_iterator own_entry(const Finding& main) {
  const std::vector<ProcessShare>& processes = main.processes;
  if (main.process_bytes) return processes.end();
  const int64_t held = main.amounts.held.value_or(0) - kRounding;
  auto own = processes.end();
  for (auto it = processes.begin(); it != processes.end(); ++it) {
    if (it->bytes < held || it->bytes - held > 2 * kGiB) continue;
    if (own == processes.end() || it->bytes < own->bytes) own = it;
  }
  return own;
}

// What listed processes other than this one hold.
int64_t foreign_bytes(const Case& found) {
  const auto own = own_entry(found.main);
  int64_t sum = 0;
  for (auto it = found.main.processes.begin(); it != found.main.processes.end(); ++it) {
    if (it != own) sum += std::min(it->bytes, int64_t{1} << 50);
  }
  return sum;
}

std::optional<Diagnosis> fragmented(const Case& found) {
  const Amounts& amounts = found.main.amounts;
  if (!amounts.pool_free || !amounts.held || !found.main.bytes) return std::nullopt;
  const double idle = static_cast<double>(*amounts.pool_free);
  const double request = static_cast<double>(*found.main.bytes);
  // A few percent are idle in every pool; what counts is a share that the request would fit into.
  // Where even all idle pieces together would not hold it, they are not what was missing.
  const bool enough = idle >= request;
  const int64_t foreign = std::max(unaccounted(found), foreign_bytes(found));
  if (foreign > 0 && foreign > *amounts.capacity / 5 && foreign > 2 * *amounts.pool_free)
    return std::nullopt;
  if (!enough || idle < 0.045 * static_cast<double>(*amounts.held)) return std::nullopt;
  return reading(found, Cause::kFragmentation, 0.8,
                 "PyTorch holds " + size_words(amounts.held) + " and has handed out " +
                     size_words(amounts.in_use) + ": " + size_words(amounts.pool_free) +
                     " are idle in its pool, yet " + size_words(found.main.bytes) +
                     " could not be served from them. The idle pieces are boxed in by used ones.");
}

std::optional<Diagnosis> held_by_others(const Case& found) {
  const Amounts& amounts = found.main.amounts;
  if (!amounts.capacity || !found.main.bytes) return std::nullopt;
  const int64_t capacity = *amounts.capacity;
  const int64_t foreign = foreign_bytes(found);
  if (foreign > capacity / 20 && foreign >= *found.main.bytes) {
    return reading(found, Cause::kGpuHeldByOtherProcess, found.main.process_bytes ? 0.85 : 0.7,
                   "Processes that are not this one hold " + size_words(foreign) + " of the " +
                       size_words(capacity) + ".");
  }
  const int64_t missing = unaccounted(found);
  if (missing < kContextBytes || missing < capacity / 10 || missing < *found.main.bytes) {
    return std::nullopt;
  }
  return reading(found, Cause::kGpuHeldByOtherProcess, missing > capacity / 4 ? 0.7 : 0.5,
                 size_words(missing) + " of " + size_words(capacity) +
                     " are neither free nor PyTorch's. A context takes less than 1 GiB; the rest "
                     "belongs to other programs on the card, a desktop, or libraries that allocate "
                     "for themselves.");
}

// The limit of Metal's allocator is a share that PyTorch chose, not the machine's memory, and what
// it calls other allocations are this process's own.
std::optional<Diagnosis> watermark(const Case& found) {
  const Amounts& amounts = found.main.amounts;
  if (found.main.family != Family::kTorchMps || !amounts.limit || !amounts.in_use) {
    return std::nullopt;
  }
  const int64_t others = amounts.others.value_or(0);
  if (others <= *amounts.in_use) return std::nullopt;
  return Diagnosis{
      Cause::kUnknown,
      0,
      "PyTorch's own limit for this process (the high watermark, " + size_words(amounts.limit) +
          ") was reached. Its tensors hold " + size_words(amounts.in_use) + " of it; the other " +
          size_words(others) +
          " are this process's too, held outside of the tensors (Metal's heaps, compiled graphs, "
          "caches). The log does not say by which of them.",
      {found.main.at},
      false};
}

std::optional<Diagnosis> filled(const Case& found) {
  const Amounts& amounts = found.main.amounts;
  const std::optional<int64_t> room = amounts.capacity ? amounts.capacity : amounts.limit;
  const std::optional<int64_t> used = amounts.held ? amounts.held : amounts.in_use;
  if (!room || !used || *room <= 0) return std::nullopt;
  const int64_t all = *used + (amounts.limit ? amounts.others.value_or(0) : 0);
  if (all < *room * 6 / 10 && all + found.main.bytes.value_or(0) < *room) return std::nullopt;
  const bool small = *room <= (amounts.capacity ? 4 * kGiB + 300 * kMiB : 7 * kGiB);
  if (all > *room) {
    return reading(
        found, Cause::kTruePeak, 0.75,
        size_words(all) + " are taken on a device of " + size_words(room) +
            ": the driver has put part of it into the machine's RAM, which is slow, and " +
            size_words(found.main.bytes) + " more were not to be had.");
  }
  const bool watermarked = found.main.family == Family::kTorchMps;
  const std::string sentence = size_words(all) + " of " + size_words(room) + " are taken and " +
                               size_words(found.main.bytes) + " more were needed: ";
  if (small) {
    return reading(found, Cause::kGpuTooSmall, 0.65,
                   sentence + "the device is small for this program.");
  }
  return reading(found, Cause::kTruePeak, 0.75,
                 sentence + (watermarked ? "the step needs more at its peak than PyTorch's "
                                           "watermark lets this process have."
                                         : "the step needs more at its peak than the device "
                                           "has."));
}

std::optional<Diagnosis> nothing_held(const Case& found) {
  const Context& context = found.facts.context;
  const bool plain =
      found.main.family == Family::kTorchPlain || found.main.family == Family::kTorchThc;
  if (!plain || !context.nothing_allocated) return std::nullopt;
  Diagnosis result = reading(found, Cause::kGpuHeldByOtherProcess, 0.6,
                             "The device refused although this program says that it has allocated "
                             "nothing there: something else holds the memory.");
  result.evidence.push_back(context.nothing_at);
  return result;
}

// PyTorch's allocator names a size; CUDA's own words come from what lies outside of it.
std::optional<Diagnosis> first_use(const Case& found) {
  if (!is_first_use(found)) return std::nullopt;
  return reading(found, Cause::kGpuHeldByOtherProcess, 0.6,
                 "The message came from CUDA itself, not from PyTorch's allocator, which would "
                 "name a size: it is the first use of the device in the log, when a context (some "
                 "500 MiB) is made. As far as the log shows this program had taken nothing "
                 "before, so the device was full, or nearly, when it came.");
}

constexpr Rule kRules[] = {allocation_limit, watermark,      enough_free, tiny_card,
                           fragmented,       held_by_others, filled};

}  // namespace

std::optional<int64_t> taken_by_process(const Finding& main) {
  if (main.process_bytes) return main.process_bytes;
  const auto own = own_entry(main);
  if (own == main.processes.end()) return std::nullopt;
  return own->bytes;
}

std::optional<Diagnosis> diagnose_torch(const Case& found) {
  if (std::optional<Diagnosis> result = nothing_held(found)) return result;
  if (std::optional<Diagnosis> result = first_use(found)) return result;
  if (!is_torch(found)) return std::nullopt;
  for (Rule rule : kRules) {
    if (std::optional<Diagnosis> result = rule(found)) return result;
  }
  return std::nullopt;
}

}  // namespace plimsoll::explain
