#include "planning/request.h"

#include "base/process_memory.h"

namespace plimsoll::planning {

Bytes guard_without_limit() {
  return Bytes(memory_available_to_process().count() / 100 * kGuardPercent);
}

layers::BatchSizes batch_sizes(int64_t batch, const RowCounts& rows) {
  layers::BatchSizes sizes;
  const auto split = [batch](int64_t count, int64_t& full, int64_t& tail) {
    if (count >= batch) full = batch;
    tail = count % batch;
  };
  split(rows.train, sizes.train, sizes.train_tail);
  split(rows.evaluate, sizes.evaluate, sizes.evaluate_tail);
  split(rows.predict, sizes.predict, sizes.predict_tail);
  return sizes;
}

void tell(const PlanRequest& request, const std::string& what) {
  if (request.tell) request.tell(what);
}

}  // namespace plimsoll::planning
