// Rules on a share of the device that a process set for itself
// (torch.cuda.set_per_process_memory_fraction), or for its pool (CuPy's set_limit): where it ran
// out, it is the capacity, whatever the device has free.

#include <algorithm>

#include "explain/read/number.h"

#include "explain/conclude/cause_impl.h"

namespace plimsoll::explain {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Figures in GiB are printed with two decimals; each may be off by 5 MiB.
constexpr int64_t kRounding = 16 * kMiB;

int64_t held_by(const Amounts& amounts) {
  return amounts.held ? *amounts.held : amounts.in_use.value_or(0);
}

std::string share_words(const Case& found, int64_t limit) {
  std::string words = "this process may take " + size_words(limit);
  if (found.main.amounts.capacity) {
    words += " of the device's " + size_words(found.main.amounts.capacity);
  }
  return words + " (its memory fraction)";
}

std::optional<Diagnosis> beyond_limit(const Case& found, int64_t limit) {
  if (!found.main.bytes || *found.main.bytes <= limit) return std::nullopt;
  return reading(found, Cause::kSingleTensorTooLarge, 0.85,
                 "One request of " + size_words(found.main.bytes) + ", and " +
                     share_words(found, limit) +
                     ". That limit is what ran out, whatever is free on the device.");
}

// Idle pieces and what the limit leaves would do together, and neither does alone.
std::optional<Diagnosis> split_up(const Case& found, int64_t limit) {
  const Amounts& amounts = found.main.amounts;
  if (!amounts.pool_free || !amounts.held || !found.main.bytes) return std::nullopt;
  const int64_t left = std::max<int64_t>(limit - *amounts.held, 0);
  const int64_t request = *found.main.bytes;
  const double share = static_cast<double>(*amounts.pool_free) /
                       static_cast<double>(std::max<int64_t>(*amounts.held, 1));
  if (share < 0.045 || *amounts.pool_free < request / 4) return std::nullopt;
  if (*amounts.pool_free + left < request) return std::nullopt;
  return reading(found, Cause::kFragmentation, 0.75,
                 "PyTorch holds " + size_words(amounts.held) + " and has handed out " +
                     size_words(amounts.in_use) + "; " + share_words(found, limit) + ". " +
                     size_words(amounts.pool_free) + " idle in its pool and " + size_words(left) +
                     " not taken yet are together more than the " + size_words(request) +
                     " asked for, but neither could serve it alone.");
}

std::optional<Diagnosis> used_up(const Case& found, int64_t limit) {
  const Amounts& amounts = found.main.amounts;
  std::string sentence = "The process holds " + size_words(held_by(amounts)) + " and " +
                         size_words(found.main.bytes) + " more were asked for; " +
                         share_words(found, limit) + ". That limit is what ran out";
  if (amounts.free) sentence += ": " + size_words(amounts.free) + " of the device are free";
  return reading(found, Cause::kTruePeak, 0.75, sentence + ".");
}

// What CuPy's pool may hold, where the program or its environment set a limit.
std::optional<Diagnosis> pool_limit(const Case& found) {
  const Amounts& amounts = found.main.amounts;
  const bool told = found.main.framework == "cupy" && amounts.limit && found.main.bytes;
  if (!told) return std::nullopt;
  const std::string limit = "the pool may hold " + size_words(amounts.limit) +
                            ", a limit that the program (set_limit) or CUPY_GPU_MEMORY_LIMIT set";
  if (*found.main.bytes > *amounts.limit) {
    return reading(found, Cause::kMemoryLimitTooSmall, 0.9,
                   "One request of " + size_words(found.main.bytes) + ", and " + limit +
                       ". The device was not asked.");
  }
  return reading(found, Cause::kTruePeak, 0.75,
                 "The pool holds " + size_words(amounts.in_use) + " and " +
                     size_words(found.main.bytes) + " more were asked for; " + limit +
                     ". The device was not asked.");
}

}  // namespace

std::optional<int64_t> own_limit(const Case& found) {
  const Amounts& amounts = found.main.amounts;
  if (found.main.family < Family::kTorchCuda2x || found.main.family == Family::kTorchMps ||
      found.main.family > Family::kTorchCudaMallocAsync) {
    return std::nullopt;
  }
  if (!amounts.limit || !found.main.bytes || *found.main.bytes > (int64_t{1} << 60)) {
    return std::nullopt;
  }
  const bool reached = held_by(amounts) + *found.main.bytes + kRounding > *amounts.limit;
  const bool device_full =
      amounts.free && *amounts.free < std::min(*found.main.bytes, *amounts.limit);
  return reached && !device_full ? amounts.limit : std::nullopt;
}

std::optional<Diagnosis> diagnose_own_limit(const Case& found) {
  if (std::optional<Diagnosis> result = pool_limit(found)) return result;
  const std::optional<int64_t> limit = own_limit(found);
  if (!limit) return std::nullopt;
  if (std::optional<Diagnosis> result = beyond_limit(found, *limit)) return result;
  if (std::optional<Diagnosis> result = growth_on_device(found)) return result;
  if (std::optional<Diagnosis> result = split_up(found, *limit)) return result;
  return used_up(found, *limit);
}

}  // namespace plimsoll::explain
