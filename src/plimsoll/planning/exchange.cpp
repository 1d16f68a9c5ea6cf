#include "planning/exchange.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <variant>
#include <vector>

#include "ops/fuse/rank_messages.h"
#include "plan/core/walk.h"
#include "plan/facts/estimate.h"
#include "plan/facts/program_facts.h"

namespace plimsoll::planning {
namespace {

double seconds_of(const graph::Exchanged& sent, const Network& network) {
  return static_cast<double>(sent.waits) * network.seconds +
         static_cast<double>(sent.bytes) / network.bytes_per_second;
}

// Whether a node, which sends nothing, waits for what another one began: its first operand.
bool waits_for(const graph::Graph& graph, graph::NodeId id, graph::NodeId begun) {
  const graph::Value& value = graph.value(graph.node(id).inputs[0]);
  return value.kind == graph::ValueKind::kNode && value.producer == begun;
}

// What one rank waits in a step, `items`: seconds of the plan's.
double find_waited(const graph::Program& program, const plan::ProgramPlan& plan,
                   const std::vector<double>& items, const ops::RankCounts& ranks,
                   const Network& network) {
  double step = 0;      // what was computed and waited so far
  double wire = 0;      // when what was begun is over
  double waited = 0;    // of the step
  graph::NodeId begun;  // what is or was on the wire
  const auto wait = [&] {
    waited += std::max(0.0, wire - step);
    step = std::max(step, wire);
  };
  plan::walk_items(plan, [&](const plan::Item& item, int64_t number, plan::LoopId) {
    const auto* call = std::get_if<plan::Call>(&item);
    if (call != nullptr && program.graph.node(call->node).op->traits().exchanges) {
      const graph::Exchanged sent =
          ops::exchanged_by(program.graph, call->node, ranks, program.batch);
      const bool only_waits = sent.messages == 0;
      if (!only_waits || waits_for(program.graph, call->node, begun)) wait();
      if (!only_waits) {
        begun = call->node;
        wire = step + seconds_of(sent, network);
        if (!ops::goes_on_beside(program.graph.node(call->node))) wait();
      }
    }
    step += items[static_cast<size_t>(number)];
  });
  return waited;
}

// How much longer than on average the slowest of so many ranks computes, as a share: their spread
// times the largest of as many numbers from a normal distribution of mean 0 and deviation 1.
double slowest_share(const Network& network, int64_t ranks) {
  if (network.spread == 0) return 0;
  // ∫₀^∞ 1 − Φ(x)ⁿ − Φ(−x)ⁿ dx; beyond 8 nothing of it is left for 4,096.
  constexpr double kMost = 8, kStep = 1.0 / 512;
  const auto n = static_cast<double>(ranks);
  double sum = 0;
  for (double x = kStep / 2; x < kMost; x += kStep) {
    const double above = std::erfc(x / std::numbers::sqrt2) / 2;
    sum += 1 - std::pow(1 - above, n) - std::pow(above, n);
  }
  return network.spread * sum * kStep;
}

// What up to 4,096 ranks take, with as many samples each as one of these.
std::vector<report::RankScale> find_scaling(const graph::Program& program,
                                            const plan::ProgramPlan& plan,
                                            const std::vector<double>& items,
                                            const PlanRequest& request) {
  const double alone = plan::estimate_seconds(plan, items);
  const Network& network = *request.network;
  std::vector<report::RankScale> scaling;
  for (int64_t count = 1; count <= graph::kMostLanes; count *= 2) {
    report::RankScale scale{.ranks = count, .batch = count * program.batch};
    if (count > 1) {
      scale.waited = find_waited(program, plan, items, {request.ranks.count, count}, network);
    }
    scale.seconds = alone * (1 + slowest_share(network, count)) + scale.waited;
    scale.efficiency = alone / scale.seconds;
    scaling.push_back(scale);
  }
  return scaling;
}

}  // namespace

report::RankExchange exchange_of(const graph::Program& program, const plan::ProgramPlan* plan,
                                 const graph::KernelCatalog& catalog, const PlanRequest& request) {
  const ops::RankCounts ranks{request.ranks.count, request.ranks.count};
  const graph::Exchanged all = ops::exchanged_by(program.graph, ranks, program.batch);
  report::RankExchange exchange{Bytes(all.bytes), all.messages};
  if (!request.network) return exchange;
  exchange.seconds = seconds_of(all, *request.network);
  if (plan == nullptr) return exchange;
  plan::ProgramFacts facts(program, catalog);
  const std::vector<double> items = plan::estimate_items(*plan, facts);
  exchange.scaling = find_scaling(program, *plan, items, request);
  const auto own =
      std::ranges::find(exchange.scaling, request.ranks.count, &report::RankScale::ranks);
  exchange.waited = own->waited;
  exchange.slowest = slowest_share(*request.network, request.ranks.count);
  return exchange;
}

}  // namespace plimsoll::planning
