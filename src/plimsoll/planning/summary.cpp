#include "planning/summary.h"

#include <algorithm>

#include "base/cgroup.h"
#include "base/format.h"
#include "base/process_memory.h"
#include "exec/spill_queue.h"
#include "layers/model/precision.h"
#include "layers/training/batch_norm_groups.h"
#include "layers/training/optimizers.h"
#include "plan/facts/liveness.h"
#include "plan/search/why.h"
#include "planning/exchange.h"
#include "planning/tuning.h"

namespace plimsoll::planning {
namespace {

std::string guard_text() {
  const CgroupMemory group = read_cgroup_memory();
  if (group.version == CgroupVersion::kNone) return "none: no memory cgroup";
  const std::string name = "memory cgroup " + std::string(to_string(group.version));
  return group.limit ? fmt::format("{}, limit {}", name, to_string(*group.limit))
                     : name + ", no limit";
}

// What is taken of that which the limit leaves over: as much as the data want, or what is worth
// having.
Bytes left_for_reading_ahead(const PlanRequest& request, Bytes process) {
  // A time allowed without a limit asks for the least memory.
  if (request.max_slowdown && !request.limit) return {};
  const Bytes least = min(request.data.ahead, 2_MiB);
  const Bytes limit = request.limit ? *request.limit : guard_without_limit();
  if (limit < process + least) return {};
  return min(request.data.ahead, limit - process);
}

// The same for transfers on their way, beyond the least buffer.
Bytes left_for_transfers(const PlanRequest& request, Bytes process) {
  const Bytes limit = request.limit ? *request.limit : guard_without_limit();
  const Bytes left = max(limit - process, Bytes());
  const Bytes granted = min(left, exec::kMostSpillBuffer - exec::kSpillBuffer);
  return Bytes(granted.count() / page_size().count() / 2 * page_size().count() * 2);
}

}  // namespace

void describe(const layers::Model& model, const layers::CompileOptions& compile,
              const layers::BatchSizes& batches, const PlanRequest& request,
              report::PlanSummary& summary) {
  summary.model = model.name();
  summary.batch = std::max({batches.train, batches.train_tail, batches.evaluate,
                            batches.evaluate_tail, batches.predict, batches.predict_tail});
  summary.parameter_count = model.parameters().total();
  summary.batch_norm_asked = batches.train > 0 ? compile.batch_norm_group : 0;
  summary.optimizer = compile.optimizer.is_null()
                          ? "no optimizer"
                          : layers::read_optimizer(compile.optimizer).class_name;
  summary.limit = request.limit;
  summary.max_slowdown = request.max_slowdown;
  summary.guard = guard_text();
  summary.any_data = request.any_data;
  summary.times = describe(request.times);
  summary.times_measured = has_calls(request.times);
}

void fill_own_set(const SetAnswer& own, report::PlanSummary& summary) {
  summary.smallest_same_bits = own.process(own.outcome.smallest);
  summary.free_plan = own.process(own.outcome.free_plan);
  summary.culprits = own.outcome.culprits;
  summary.searched_all = !own.outcome.cut_short;
  summary.smallest_is_proved =
      own.outcome.smallest <= own.outcome.lower_bound &&
      own.process(own.outcome.smallest) <= own.process_bound(own.outcome.lower_bound);
  if (own.spilled) {
    // Whoever may use a file need not.
    summary.smallest_with_spill =
        min(own.process_with_file(own.spilled->smallest), summary.smallest_same_bits);
  }
  summary.frontier = process_frontier(own.without_file(), own.outcome.frontier);
  for (plan::FrontierPoint point : own.outcome.plain) {
    point.arena_bytes = own.process(point.arena_bytes);
    summary.plain.push_back(std::move(point));
  }
}

ProcessOverhead fill_chosen(const SetAnswer& chosen, const PlanRequest& request,
                            report::PlanSummary& summary) {
  const graph::KernelCatalog& catalog = chosen.catalog();
  summary.kernel_set = catalog.kernel_set();
  summary.precision = to_string(layers::precision_of(chosen.lowered.built.set));
  summary.batch_norm_group = layers::batch_norm_group_of(chosen.lowered.built.set);
  summary.block_set = catalog.block_set();
  summary.kernel_parts = catalog.part_count();
  summary.lanes = chosen.lowered.built.set.programs.front().lanes;
  summary.threads = catalog.thread_count();
  summary.ranks = request.ranks.count;
  summary.shard = request.shard;
  summary.sharded_states = static_cast<int64_t>(chosen.lowered.sharded.size());
  const plan::Fits* plan = chosen.fits();
  if (request.ranks.count > 1) {
    summary.exchange =
        exchange_of(chosen.lowered.built.set.programs.front(),
                    plan == nullptr ? nullptr : &plan->plan.programs.front(), catalog, request);
  }
  Bytes state;
  ProcessOverhead overhead = chosen.overhead;
  if (plan != nullptr) {
    overhead = chosen.overhead_taken();
    summary.spill = plan->plan.spill_bytes;
    summary.planned_arena = plan->plan.arena_bytes;
    summary.arena_load = plan::find_arena_load(plan->plan);
    summary.seconds_per_step = plan->seconds;
    summary.strategy = plan->what;
    state = plan->plan.state_bytes;
  } else {
    summary.planned_arena = chosen.outcome.smallest;
    if (!chosen.outcome.frontier.empty()) {
      summary.seconds_per_step = chosen.outcome.frontier.front().seconds;
      summary.strategy = chosen.outcome.frontier.front().what;
    }
    for (const graph::StateVariable& variable : graph::states_of(chosen.lowered.built.set)) {
      state +=
          round_up(tensor_bytes(variable.type.dtype, variable.type.shape, 1), plan::kAlignment);
    }
  }
  summary.predicted_process = process_bytes(overhead, summary.planned_arena);
  if (summary.spill > Bytes()) {
    overhead.spill += left_for_transfers(request, summary.predicted_process);
    summary.predicted_process = process_bytes(overhead, summary.planned_arena);
  }
  if (plan != nullptr) overhead.ahead = left_for_reading_ahead(request, summary.predicted_process);
  summary.predicted_process = process_bytes(overhead, summary.planned_arena);
  summary.parts = memory_parts(overhead, state, summary.planned_arena);
  for (report::MemoryPart& part : summary.parts) {
    if (request.any_data && part.name == "data buffers") part.name += ", of any source";
  }
  summary.accounted = accounted_parts(overhead, summary.planned_arena);
  return overhead;
}

void fill_why(const SetAnswer& chosen, const PlanRequest& request, report::PlanSummary& summary) {
  if (request.why.empty()) return;
  summary.why_layer = request.why;
  summary.why = plan::explain_layer(chosen.fits()->plan, chosen.lowered.built.set, chosen.catalog(),
                                    request.why);
}

}  // namespace plimsoll::planning
