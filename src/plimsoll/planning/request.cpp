#include "planning/request.h"

#include "base/format.h"
#include "base/process_memory.h"

namespace plimsoll::planning {

Bytes guard_without_limit() {
  return Bytes(memory_available_to_process().count() / 100 * kGuardPercent);
}

HeldBeside held_beside(const PlanRequest& request) {
  return {.data = request.data,
          .given = request.given,
          .exchange = request.exchange,
          .saved_plan = request.saved_plan ? Bytes(std::ssize(*request.saved_plan)) : Bytes(),
          .times = request.times.known ? held_bytes(*request.times.known) : Bytes(),
          .profiled = request.estimate};
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

std::string searching(std::optional<Bytes> limit) {
  return limit ? fmt::format("searching for a plan within {}", to_string(*limit))
               : "searching for the fastest plan";
}

void tell(const PlanRequest& request, const std::string& what) {
  if (request.tell) request.tell(what);
}

void tell_search(const PlanRequest& request, const std::string& how) {
  if (!request.tell) return;
  request.tell(
      searching(request.limit) + how +
      (request.found ? fmt::format(": smallest found so far {}", to_string(*request.found)) : ""));
}

}  // namespace plimsoll::planning
