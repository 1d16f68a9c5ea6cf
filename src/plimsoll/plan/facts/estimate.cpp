#include "plan/facts/estimate.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/ceil_div.h"
#include "graph/value_axes.h"
#include "plan/core/walk.h"

namespace plimsoll::plan {
namespace {

// What starting an item costs beside its work.
constexpr double kItemSeconds = 1e-7;

int64_t count_iterations(const ProgramPlan& plan, LoopId loop) {
  const Loop& table = plan.loops[loop.index()];
  return iteration_count(table, {0, table.extent}, lane_of(plan, table));
}

// Iterations of all loops from `loop` outwards.
int64_t count_all_iterations(const ProgramPlan& plan, std::span<const LoopId> parents,
                             LoopId loop) {
  int64_t iterations = 1;
  for (; loop.valid(); loop = parents[loop.index()]) iterations *= count_iterations(plan, loop);
  return iterations;
}

// How often a call does all of its work: once for each iteration of a loop that cuts none of its
// axes.
int64_t count_repeats(const ProgramPlan& plan, std::span<const LoopId> parents, LoopId around,
                      const Call& call, const ProgramFacts& facts) {
  int64_t repeats = 1;
  for (LoopId loop = around; loop.valid(); loop = parents[loop.index()]) {
    const int axis = graph::find_axis(facts.axes(call.node), find_bound_axis(plan, loop, &call));
    if (axis < 0) repeats *= count_iterations(plan, loop);
  }
  return repeats;
}

double call_seconds(const ProgramPlan& plan, std::span<const LoopId> parents, LoopId around,
                    const Call& call, ProgramFacts& facts) {
  return static_cast<double>(count_repeats(plan, parents, around, call, facts)) *
         facts.seconds(call.node, find_call_lengths(plan, parents, around, call, facts));
}

}  // namespace

const ProgramFacts::CallCost& find_call_cost(const ProgramPlan& plan,
                                             std::span<const LoopId> parents, LoopId around,
                                             const Call& call, ChainId chain, ProgramFacts& facts) {
  std::optional<ProgramFacts::CallCost>& known = facts.call_costs().at(call.node.index(), chain);
  if (!known) {
    const std::vector<BlockLengths> lengths = find_call_lengths(plan, parents, around, call, facts);
    known = {facts.scratch(call.node, lengths, {}),
             call_seconds(plan, parents, around, call, facts)};
  }
  return *known;
}

namespace {

// What an iteration of `around` moves: its own rows of what lies whole at either end.
Bytes transfer_bytes(const ProgramPlan& plan, std::span<const LoopId> parents, LoopId around,
                     const BeginTransfer& begin, const ProgramFacts& facts) {
  const auto rows_of_iteration = [&](InstanceId id) {
    const Instance& instance = plan.instances[id.index()];
    const graph::Value& value = facts.graph().value(instance.value);
    std::vector<graph::ValueAxis> axes;
    if (around != instance.scope) {
      static const std::vector<graph::Axis> kNone;
      axes = graph::value_axes(
          facts.graph(), instance.value,
          value.kind == graph::ValueKind::kNode ? facts.axes(value.producer) : kNone);
    }
    int64_t pieces = 1;
    for (LoopId loop = around; loop.valid() && loop != instance.scope;
         loop = parents[loop.index()]) {
      const LoopAxis& axis = plan.loops[loop.index()].axis;
      const auto own = std::ranges::find(axes, axis.name(), &graph::ValueAxis::name);
      const auto asked = std::ranges::find(begin.rows, axis, &IterationRows::axis);
      if (own != axes.end() || asked != begin.rows.end()) pieces *= count_iterations(plan, loop);
    }
    return ceil_div(instance.bytes.count(), pieces);
  };
  return Bytes(std::min(rows_of_iteration(begin.source), rows_of_iteration(begin.target)));
}

}  // namespace

bool moves_nothing(const ProgramPlan& plan, const Call& call, const graph::Graph& graph) {
  const graph::OpTraits traits = graph.node(call.node).op->traits();
  return traits.view && call.outputs[0].valid() &&
         plan.instances[call.outputs[0].index()].in_place.valid();
}

std::vector<double> estimate_items(const ProgramPlan& plan, ProgramFacts& facts) {
  const std::vector<LoopId> parents = find_parents(plan);
  const std::optional<std::vector<ChainId>> chains = facts.chains().number(plan);
  std::vector<double> all;
  // Over all iterations: each has its own rows of what lives around the loop.
  const auto copy = [&](InstanceId id) {
    const Instance& instance = plan.instances[id.index()];
    return facts.catalog().copy_seconds(instance.bytes) *
           static_cast<double>(count_all_iterations(plan, parents, instance.scope));
  };
  std::map<int, double> work;  // by transfer
  walk_items(plan, [&](const Item& item, int64_t number, LoopId around) {
    const auto times = static_cast<double>(count_all_iterations(plan, parents, around));
    double seconds = kItemSeconds * times;
    if (const auto* call = std::get_if<Call>(&item)) {
      if (!moves_nothing(plan, *call, facts.graph())) {
        seconds += chains ? find_call_cost(plan, parents, around, *call,
                                           LoopChains::at(*chains, around), facts)
                                .seconds
                          : call_seconds(plan, parents, around, *call, facts);
      }
    } else if (const auto* feed = std::get_if<Feed>(&item)) {
      seconds += copy(feed->target);
    } else if (const auto* encode = std::get_if<Encode>(&item)) {
      seconds += copy(encode->source);
    } else if (const auto* begin = std::get_if<BeginTransfer>(&item)) {
      using Spill = graph::KernelCatalog::Spill;
      const bool reads = plan.instances[begin->source.index()].space == Space::kSpill;
      const Bytes bytes = transfer_bytes(plan, parents, around, *begin, facts);
      seconds += times * facts.catalog().spill_seconds(bytes, reads ? Spill::kRead : Spill::kWrite);
      work[begin->number] = times * facts.catalog().spill_work_seconds(bytes);
    } else if (const auto* wait = std::get_if<WaitTransfer>(&item)) {
      seconds += work[wait->number];
    }
    all.resize(static_cast<size_t>(number) + 1);
    all.back() = seconds;
  });
  return all;
}

namespace {

// Follows two clocks: of the steps, and of the disk, which does one transfer after the other and
// runs ahead of the iterations of a loop.
class Clocks {
 public:
  Clocks(const ProgramPlan& plan, std::span<const double> seconds)
      : plan_(plan), seconds_(seconds) {}

  double run() {
    for (const Item& item : plan_.items) visit(item);
    return std::max(steps_, disk_);
  }

 private:
  void visit(const Item& item) {
    if (const auto* enter = std::get_if<Enter>(&item)) {
      Sums sums;
      ++number_;
      add_body(enter->loop, sums);
      ++number_;
      if (sums.disk > 0) disk_ = std::max(disk_, steps_) + sums.disk;
      steps_ += sums.steps;
      if (sums.disk > 0) steps_ = disk_ = std::max(steps_, disk_);
      return;
    }
    const double seconds = seconds_[static_cast<size_t>(number_++)];
    if (const auto* begin = std::get_if<BeginTransfer>(&item)) {
      disk_ = std::max(disk_, steps_) + seconds;
      done_[begin->number] = disk_;
    } else {
      steps_ += seconds;
    }
    if (const auto* wait = std::get_if<WaitTransfer>(&item)) {
      const auto done = done_.find(wait->number);
      if (done != done_.end()) steps_ = std::max(steps_, done->second);
    }
  }

  struct Sums {
    double steps = 0;
    double disk = 0;
  };
  void add_body(LoopId loop, Sums& sums) {
    for (const Item& item : plan_.loops[loop.index()].items) {
      if (const auto* enter = std::get_if<Enter>(&item)) {
        ++number_;
        add_body(enter->loop, sums);
        ++number_;
        continue;
      }
      const bool transfer = std::holds_alternative<BeginTransfer>(item);
      (transfer ? sums.disk : sums.steps) += seconds_[static_cast<size_t>(number_++)];
    }
  }

  const ProgramPlan& plan_;
  std::span<const double> seconds_;  // by item number
  size_t number_ = 0;
  double steps_ = 0;
  double disk_ = 0;
  std::map<int, double> done_;  // by transfer
};

}  // namespace

double estimate_seconds(const ProgramPlan& plan, ProgramFacts& facts) {
  return estimate_seconds(plan, estimate_items(plan, facts));
}

double estimate_seconds(const ProgramPlan& plan, std::span<const double> items) {
  bool transfers = false;
  walk_items(plan, [&](const Item& item, int64_t, LoopId) {
    transfers |= std::holds_alternative<BeginTransfer>(item);
  });
  return transfers ? Clocks(plan, items).run() : std::accumulate(items.begin(), items.end(), 0.0);
}

}  // namespace plimsoll::plan
