#include <algorithm>
#include <utility>

#include "base/format.h"
#include "explain/answer/advice_impl.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// The limit that a plan would have to hold, from the figures of the log.
std::optional<int64_t> limit_to_plan_for(const Explanation& explanation) {
  const Amounts& amounts = explanation.amounts;
  if (explanation.cause_label == Cause::kSingleAllocationLimit) return std::nullopt;
  if (explanation.family == to_string(Family::kPlimsollLimit))
    return std::nullopt;  // known to fail
  if (amounts.limit) return amounts.limit;
  // What a context takes is no room for tensors.
  if (amounts.capacity && amounts.free && amounts.held) {
    return std::min(*amounts.capacity, *amounts.free + *amounts.held);
  }
  if (amounts.capacity && amounts.others) return *amounts.capacity - *amounts.others;
  return amounts.capacity;
}

bool trains(Cause cause) {
  switch (cause) {
    case Cause::kTruePeak:
    case Cause::kFragmentation:
    case Cause::kGpuTooSmall:
    case Cause::kWeightsOrOptimizer:
    case Cause::kVocabSoftmaxOrOneHot:
    case Cause::kEvalLargerThanTrain:
    case Cause::kHostRamBatchOrDataset:
    case Cause::kHostRamContainerLimit:
    case Cause::kSingleTensorTooLarge:
    case Cause::kMemoryLimitTooSmall:
    case Cause::kUnknown:
      return true;
    default:
      return false;
  }
}

void set_command(const Case& found, Explanation& explanation) {
  const bool memory =
      explanation.resource == Resource::kGpuMemory || explanation.resource == Resource::kHostMemory;
  if (!memory || !trains(explanation.cause_label)) return;
  // Servers, libraries and languages in which nobody trains what Plimsoll plans.
  if (found.main.family == Family::kOtherHost || found.main.family == Family::kOtherGpu) return;
  if (found.main.note == "yarn") return;
  if (explanation.resource == Resource::kHostMemory && explanation.cause_label == Cause::kUnknown) {
    explanation.plimsoll_command = "plimsoll watch -- COMMAND";
    return;
  }
  std::string command = plan_command(found) + " --batch ";
  command += explanation.batch ? std::to_string(*explanation.batch) : "N";
  const std::optional<int64_t> limit = limit_to_plan_for(explanation);
  if (limit && *limit >= 64 * kMiB) {
    command += fmt::format(" --memory {}MiB", *limit / kMiB);
  }
  explanation.plimsoll_command = command;
}

// Advice that saves less than a twentieth of what is missing is not worth doing, and says so.
void set_aside_small_savings(Explanation& explanation) {
  const std::optional<int64_t> missing = shortage(explanation);
  if (!missing || *missing <= 0) return;
  std::vector<Advice> kept;
  for (Advice& advice : explanation.advice) {
    if (!advice.saves_bytes || *advice.saves_bytes >= *missing / 20) {
      kept.push_back(std::move(advice));
      continue;
    }
    add_not_worth(explanation, advice.action,
                  "saves " + size_words(advice.saves_bytes) + " of the " + size_words(missing) +
                      " that are missing");
  }
  explanation.advice = std::move(kept);
}

}  // namespace

std::optional<int64_t> left_for(const Explanation& explanation) {
  const Amounts& amounts = explanation.amounts;
  const bool own = explanation.framework == "pytorch" && amounts.limit && amounts.held;
  if (!own || !amounts.free) return amounts.free;
  return std::min(*amounts.free, std::max<int64_t>(*amounts.limit - *amounts.held, 0));
}

std::optional<int64_t> shortage(const Explanation& explanation) {
  std::optional<int64_t> request = explanation.bytes;
  if (!request) request = explanation.tensor_bytes_from_shape;
  if (!request) return std::nullopt;
  const Amounts& amounts = explanation.amounts;
  std::optional<int64_t> there = left_for(explanation);
  if (amounts.largest_free) there = std::max(there.value_or(0), *amounts.largest_free);
  if (!there && amounts.limit && amounts.in_use && amounts.others) {
    there = std::max<int64_t>(*amounts.limit - *amounts.in_use - *amounts.others, 0);
  }
  if (!there) return std::nullopt;
  return std::max<int64_t>(*request - *there, 0);
}

void advise(const Case& found, Explanation& explanation) {
  switch (explanation.resource) {
    case Resource::kGpuMemory:
      advise_device(found, explanation);
      break;
    case Resource::kHostMemory:
      advise_host(found, explanation);
      break;
    default:
      advise_limits(found, explanation);
      break;
  }
  set_aside_small_savings(explanation);
  correct(found, explanation);
  ask_for_more(found, explanation);
  set_command(found, explanation);
}

}  // namespace plimsoll::explain
