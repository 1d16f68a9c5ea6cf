#include "planning/largest_batch.h"

#include <algorithm>

#include "base/format.h"
#include "planning/asking.h"
#include "planning/batch_search.h"
#include "planning/lowering.h"

namespace plimsoll::planning {
namespace {

// Each batch size that is tried gets this part of the effort.
constexpr int64_t kBatchShare = 3;
constexpr int64_t kLargestBatchTried = int64_t{1} << 20;

}  // namespace

std::optional<int64_t> largest_batch(const layers::Model& model,
                                     const layers::CompileOptions& compile, PlanRequest request,
                                     int block_set, int64_t known, const std::string& state) {
  int64_t largest = known;
  request.full_answer = false;
  request.plan_steps = std::max<int64_t>(1, request.plan_steps / kBatchShare);
  return find_largest_batch(known, kLargestBatchTried, [&](int64_t batch) {
    layers::BatchSizes sizes;
    sizes.train = batch;
    tell(request, state + "; searching for the largest batch" +
                      (largest > 0 ? fmt::format(": so far {}", largest) : ""));
    const Lowering lowering(model, compile, sizes, request);
    const bool fits = ask_fits(lowering, request, block_set);
    if (fits) largest = std::max(largest, batch);
    return fits;
  });
}

}  // namespace plimsoll::planning
