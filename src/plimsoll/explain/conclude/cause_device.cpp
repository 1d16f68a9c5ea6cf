// Rules on allocators' dumps, XLA's accounts, and what a driver refuses.

#include <algorithm>
#include <array>

#include "base/format.h"
#include "explain/read/number.h"

#include "explain/conclude/cause_impl.h"

namespace plimsoll::explain {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

// "Extra memory due to padding: 9.06G (64.0x expansion)": a layout in tiles of 8 x 128.
std::optional<Diagnosis> tpu_padding(const Case& found) {
  const std::optional<int64_t> padding = found.facts.program.padding;
  if (!padding || !found.main.bytes || *padding < *found.main.bytes / 2) return std::nullopt;
  std::string sentence = size_words(padding) + " of the " + size_words(found.main.bytes) +
                         " are padding: the chip keeps the last two axes in tiles of 8 x 128";
  const std::vector<ProgramBuffer>& buffers = found.facts.program.buffers;
  if (!buffers.empty() && !buffers.front().shape.empty()) {
    sentence += ", and " + buffers.front().shape + " has a last axis that fills little of one";
  }
  if (!found.facts.program.expansion.empty()) {
    sentence += " (" + found.facts.program.expansion + ")";
  }
  return reading(found, Cause::kPaddingOrDtypeBlowup, 0.9, sentence + ".");
}

std::optional<Diagnosis> xla_program(const Case& found) {
  const Finding& main = found.main;
  if (main.family == Family::kXlaRematWarning) {
    return reading(found, Cause::kTruePeak, 0.85,
                   "The compiled program needs " + size_words(main.amounts.program) +
                       " even after rematerialization, and " + size_words(main.amounts.limit) +
                       " are there. This is a warning at compile time; running it would fail.");
  }
  if (main.family == Family::kXlaTpuHbm) {
    if (std::optional<Diagnosis> padded = tpu_padding(found)) return padded;
    if (main.amounts.capacity && main.bytes) {
      return reading(found, Cause::kTruePeak, 0.95,
                     "The program needs " + size_words(main.bytes) +
                         " of device memory and the "
                         "device has " +
                         size_words(main.amounts.capacity) + ".");
    }
    if (main.note == "attempt" && main.amounts.free) {
      return reading(found, Cause::kTruePeak, 0.5,
                     size_words(main.bytes) + " were asked for with " +
                         size_words(main.amounts.free) + " free.");
    }
    return std::nullopt;
  }
  const std::optional<int64_t> total = found.facts.program.total;
  if (const Finding* warned = total ? nullptr : found.first(Family::kXlaRematWarning)) {
    Diagnosis result =
        reading(found, Cause::kTruePeak, 0.9,
                "The compiled program needs " + size_words(warned->amounts.program) +
                    " even after rematerialization, where " + size_words(warned->amounts.limit) +
                    " may be used: that peak is its own.");
    result.evidence.insert(result.evidence.begin(), warned->at);
    return result;
  }
  if (!total) return std::nullopt;
  if (*total < 256 * kMiB) return std::nullopt;  // the last straw: the pool was full before
  Diagnosis result =
      reading(found, Cause::kTruePeak, *total >= kGiB ? 0.75 : 0.5,
              "The compiled program needs " + size_words(total) + " in all, " +
                  size_words(found.facts.program.temporaries) +
                  " of it temporary: that peak is its own, not left-overs of other programs.");
  result.evidence.push_back(found.facts.program.at);
  return result;
}

std::optional<Diagnosis> xla_buffers(const Case& found) {
  const bool asks = found.request && *found.request >= kGiB;
  if (found.facts.program.buffers.empty() || !asks) return std::nullopt;
  Diagnosis result = reading(found, Cause::kTruePeak, 0.5,
                             "The program's own buffers are listed and " +
                                 size_words(found.request) + " more were asked for.");
  result.evidence.push_back(found.facts.program.buffers.front().at);
  return result;
}

std::optional<Diagnosis> beyond_device(const Case& found) {
  const std::optional<int64_t> request = found.least();
  if (!request || found.main.resource != Resource::kGpuMemory) return std::nullopt;
  std::optional<int64_t> room = found.main.amounts.capacity;
  if (found.pool.device_total) room = found.pool.device_total;
  const bool pool = !room && found.facts.program.base_limit;
  if (pool) room = found.facts.program.base_limit;
  const bool known = room && *request > *room;
  if (!known && (room || *request < 200 * kGiB)) return std::nullopt;
  if (found.has(Family::kXlaTpuHbm) || found.has(Family::kXlaRematWarning)) return std::nullopt;
  if (found.main.note.starts_with("ggml_")) return std::nullopt;  // its size is reckoned rightly
  if (found.facts.program.total) return std::nullopt;
  return reading(found, Cause::kSingleTensorTooLarge, known ? 0.9 : 0.8,
                 "One request of " + size_words(request) +
                     (known && pool ? " where the whole pool may have " + size_words(room) + "."
                      : known       ? " on a device of " + size_words(room) + "."
                              : ". The log does not say what the device has; few have as much."));
}

std::optional<Diagnosis> small_limit(const Case& found) {
  const Context& context = found.facts.context;
  constexpr int64_t kSmall = 256 * kMiB;
  const bool created = context.created_mib && *context.created_mib < kSmall / kMiB;
  const bool limited = found.pool.limit && *found.pool.limit < kSmall;
  if (!created && !limited) return std::nullopt;
  const int64_t limit = limited ? *found.pool.limit : *context.created_mib * kMiB;
  Diagnosis result =
      reading(found, Cause::kMemoryLimitTooSmall, 0.85,
              "The framework was given " + size_words(limit) +
                  " of the device. No card has so little: a configured limit, or other users of "
                  "the memory (on a Jetson the CPU's programs), left no more.");
  if (created) result.evidence.push_back(context.created_at);
  return result;
}

std::optional<Diagnosis> beyond_pool(const Case& found) {
  const std::optional<int64_t> request = found.least();
  if (!found.pool.limit || !request || *request <= *found.pool.limit) return std::nullopt;
  return reading(found, Cause::kSingleTensorTooLarge, 0.8,
                 "One request of " + size_words(request) + " where the whole pool may have " +
                     size_words(found.pool.limit) + ".");
}

std::optional<Diagnosis> many_allocations(const Case& found) {
  constexpr int64_t kMillions = 5'000'000;
  if (!found.pool.num_allocs || *found.pool.num_allocs < kMillions) return std::nullopt;
  return reading(found, Cause::kLeakOverTime, 0.6,
                 fmt::format("{} allocations had gone well before this one failed: the same work "
                             "fitted for a long time, and something grew beside it.",
                             *found.pool.num_allocs));
}

std::optional<Diagnosis> driver_withheld(const Case& found) {
  const Pool& pool = found.pool;
  if (!pool.available || !found.request || *pool.available < *found.request) return std::nullopt;
  return reading(found, Cause::kGpuHeldByOtherProcess, 0.55,
                 "The pool's limit leaves " + size_words(pool.available) +
                     " that it has not taken yet, more than the " + size_words(found.request) +
                     " asked for, but the driver did not give it: somebody else has that memory, "
                     "or the limit was set above what is there.");
}

std::optional<Diagnosis> fragmented_pool(const Case& found) {
  const PoolSpace space = pool_space(found.pool);
  if (!space.free || !found.request || *space.free < *found.request) return std::nullopt;
  if (space.largest && *space.largest >= *found.request) return std::nullopt;
  std::string sentence = size_words(space.free) + " are free in the pool, more than the " +
                         size_words(found.request) + " asked for, but not in one piece";
  if (space.largest) sentence += " (the largest is " + size_words(space.largest) + ")";
  Diagnosis result =
      reading(found, Cause::kFragmentation, space.largest ? 0.8 : 0.55, sentence + ".");
  return result;
}

std::optional<Diagnosis> full_pool(const Case& found) {
  const Pool& pool = found.pool;
  const PoolSpace space = pool_space(pool);
  constexpr int64_t kSmallCard = 3'500'000'000;
  const bool full =
      pool.limit && pool.in_use && *pool.limit > 0 && *pool.in_use >= *pool.limit / 100 * 85;
  if (full && *pool.limit <= kSmallCard && *pool.limit >= 512 * kMiB) {
    return reading(found, Cause::kGpuTooSmall, 0.65,
                   size_words(pool.in_use) + " of the " + size_words(pool.limit) +
                       " that this small device gives are in use.");
  }
  if (full) {
    return reading(found, Cause::kTruePeak, 0.65,
                   size_words(pool.in_use) + " of " + size_words(pool.limit) +
                       " are in use: the step needs more at its peak than there is.");
  }
  if (space.free && found.request && *space.free < *found.request) {
    std::string sentence = size_words(found.request) + " were asked for and only " +
                           size_words(space.free) + " are free in the pool";
    if (space.largest) sentence += ", " + size_words(space.largest) + " in its largest piece";
    return reading(found, Cause::kTruePeak, 0.6, sentence + ": it is full, not split up.");
  }
  return std::nullopt;
}

std::optional<Diagnosis> live_tensors(const Case& found) {
  const TensorList& tensors = found.facts.tensors;
  if (tensors.entries == 0) return std::nullopt;
  Diagnosis result =
      reading(found, Cause::kTruePeak, 0.6,
              "The list of live tensors accounts for " + size_words(tensors.sum) +
                  ", the largest of " + size_words(tensors.largest_bytes) + " from " +
                  tensors.largest + ": results of the model itself that the step keeps.");
  result.evidence.push_back(tensors.at);
  return result;
}

std::optional<Diagnosis> small_request_refused(const Case& found) {
  const Finding* driver = found.first(Family::kTfDriverAlloc);
  if (driver == nullptr || !driver->bytes) return std::nullopt;
  if (found.main.resource != Resource::kGpuMemory) return std::nullopt;
  const bool alone = found.main.family == Family::kTfDriverAlloc;
  const bool handle = found.has(Family::kCudnnInit);
  if (!alone && !(handle && *driver->bytes <= 64 * kMiB)) return std::nullopt;
  Diagnosis result = reading(
      found, Cause::kGpuHeldByOtherProcess, handle ? 0.65 : 0.45,
      "The driver refused " + size_words(driver->bytes) +
          (handle ? " and a library's handle" : " that the pool wanted") +
          ": that much of the card was already taken, by a process that is still there, another "
          "kernel of the same notebook, or the desktop.");
  result.evidence.push_back(driver->at);
  return result;
}

// The message says itself what was free.
std::optional<Diagnosis> told_free(const Case& found) {
  const bool tells = found.main.family == Family::kPaddle || found.main.family == Family::kOtherGpu;
  const std::optional<int64_t> free = found.main.amounts.free;
  if (!tells || !found.request || !free) return std::nullopt;
  if (*free >= *found.request) {
    return reading(
        found, Cause::kFreeExceedsRequest, 0.7,
        size_words(free) + " were free and " + size_words(found.request) + " were refused.");
  }
  return reading(found, Cause::kTruePeak, *found.request >= kGiB / 4 ? 0.6 : 0.5,
                 size_words(found.request) + " more were asked for with " + size_words(free) +
                     " left on the device: " + size_words(*found.request - *free) +
                     " are missing.");
}

// The banner at start says how much of the card was free before anything was asked for.
std::optional<Diagnosis> taken_at_start(const Case& found) {
  const Context& context = found.facts.context;
  if (!context.banner_free || !context.banner_total) return std::nullopt;
  if (*context.banner_free > *context.banner_total / 4) return std::nullopt;
  Diagnosis result =
      reading(found, Cause::kGpuHeldByOtherProcess, 0.8,
              "At start " + size_words(context.banner_free) + " of the card's " +
                  size_words(context.banner_total) + " were free: the rest was taken before.");
  result.evidence.push_back(context.banner_at);
  return result;
}

// A pool that takes its share at its start is refused, and asks for a tenth less until it has some.
std::optional<Diagnosis> preallocation(const Case& found) {
  if (found.main.family != Family::kTfDriverAlloc || !found.main.bytes) return std::nullopt;
  const std::vector<Finding>& all = found.facts.findings;
  const auto next = std::find_if(all.begin(), all.end(), [&](const Finding& other) {
    if (other.family != Family::kTfDriverAlloc || !other.bytes || other.at <= found.main.at) {
      return false;
    }
    const double part = static_cast<double>(*other.bytes) / static_cast<double>(*found.main.bytes);
    return part > 0.89 && part < 0.91;
  });
  const bool jax = found.framework == "jax";
  if (next == all.end() || (!jax && !found.main.survivable)) return std::nullopt;
  std::string sentence = "At its start the framework wanted " + size_words(found.main.bytes) +
                         " of the device in one piece, was refused, and asked for a tenth less "
                         "until it got a piece. Its share was set above what was free";
  if (found.facts.context.device_used && found.facts.context.device_size) {
    sentence += " (" + size_words(found.facts.context.device_used) + " of " +
                size_words(found.facts.context.device_size) + " were in use)";
  }
  Diagnosis result =
      reading(found, Cause::kPreallocationRefused, 0.75, sentence + "; that alone ends nothing.");
  result.evidence.push_back(next->at);
  if (found.facts.context.device_used) result.evidence.push_back(found.facts.context.device_at);
  return result;
}

// The pool wanted its share of the device before anything else and got next to nothing of it.
std::optional<Diagnosis> held_from_start(const Case& found) {
  constexpr int kSteps = 5;
  const DriverRefusals& driver = found.facts.driver;
  const bool pool = found.framework == "jax" || found.framework == "tensorflow";
  if (!pool || found.main.family == Family::kTfDriverAlloc || driver.steps < kSteps) {
    return std::nullopt;
  }
  if (driver.first < kGiB || driver.last > driver.first / 2) return std::nullopt;
  // What the pool still wanted later is its share without what it had got.
  const int64_t got = driver.later > 0 ? std::max<int64_t>(driver.first - driver.later, 0) : 0;
  if (got > driver.first / 4) return std::nullopt;
  if (found.request && *found.request >= driver.first - got) return std::nullopt;
  std::string sentence =
      "At its start the framework wanted " + size_words(driver.first) +
      " of the device, was refused, and asked for a tenth less again and again: " +
      size_words(driver.last) + " were refused too. ";
  if (got > 0) sentence += "All that this process got is " + size_words(got) + ". ";
  Diagnosis result = reading(found, Cause::kGpuHeldByOtherProcess, 0.8,
                             sentence + "The rest of the device was taken before it came.");
  result.evidence = {driver.first_at, driver.last_at, found.main.at};
  return result;
}

// XLA tries several kernels for a product and compares their results; each wants scratch memory.
std::optional<Diagnosis> autotuning(const Case& found) {
  if (found.main.note != "autotune" || !found.main.bytes) return std::nullopt;
  if (found.shape_bytes && *found.shape_bytes >= *found.main.bytes / 100 * 98) {
    return reading(found, Cause::kTruePeak, 0.7,
                   "While XLA tried kernels out, " + size_words(found.main.bytes) +
                       " were refused. That is no scratch but a whole array of the program (" +
                       found.main.dtype + " of " + size_words(found.shape_bytes) +
                       "), of which a kernel's operands and result need several at once: the "
                       "program's own arrays are more than the pool has.");
  }
  return reading(found, Cause::kConvWorkspace, 0.75,
                 "XLA's search for the fastest kernel wanted " + size_words(found.main.bytes) +
                     " of scratch memory beside the program and was refused: the pool had been "
                     "filled before, and the error after it is the search that got no result.");
}

constexpr Rule kXlaRules[] = {autotuning, xla_program, xla_buffers};
constexpr Rule kPoolRules[] = {diagnose_server, preallocation,         taken_at_start,
                               small_limit,     beyond_pool,           many_allocations,
                               driver_withheld, fragmented_pool,       full_pool,
                               live_tensors,    small_request_refused, told_free};

std::optional<Diagnosis> first_of(std::span<const Rule> rules, const Case& found) {
  for (Rule rule : rules) {
    if (std::optional<Diagnosis> result = rule(found)) return result;
  }
  return std::nullopt;
}

}  // namespace

PoolSpace pool_space(const Pool& pool) {
  PoolSpace space;
  const ChunkCounts& chunks = pool.chunks;
  if (chunks.free_chunks > 0) space.largest = chunks.largest_free;
  // All bins, or the last one, which alone can serve 256 MiB and more.
  const bool last_bin = pool.request.value_or(0) >= 256 * kMiB && chunks.bins_allocated > 0;
  const bool bins_tell = chunks.bin_lines >= 10 || last_bin;
  if (pool.region_bytes && pool.in_use) {
    space.free = std::max<int64_t>(*pool.region_bytes - *pool.in_use, 0);
  } else if (bins_tell && chunks.bins_allocated >= chunks.bins_in_use) {
    space.free = chunks.bins_allocated - chunks.bins_in_use;
  } else if (chunks.free_chunks > 0) {
    space.free = chunks.free_bytes;
  }
  // A cut dump may show a piece larger than the sum of what it shows.
  if (space.free && space.largest) space.free = std::max(*space.free, *space.largest);
  return space;
}

std::optional<Diagnosis> diagnose_xla(const Case& found) { return first_of(kXlaRules, found); }

std::optional<Diagnosis> diagnose_pool(const Case& found) { return first_of(kPoolRules, found); }

std::optional<Diagnosis> diagnose_device(const Case& found) {
  if (found.main.resource != Resource::kGpuMemory) return std::nullopt;
  static constexpr Rule kFamilies[] = {diagnose_own_limit, beyond_device,   growth_on_device,
                                       diagnose_torch,     held_from_start, diagnose_xla,
                                       diagnose_pool};
  return first_of(kFamilies, found);
}

}  // namespace plimsoll::explain
