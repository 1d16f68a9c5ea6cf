#include "planning/exchange.h"

#include <algorithm>
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

double find_waited(const graph::Program& program, const plan::ProgramPlan& plan,
                   const graph::KernelCatalog& catalog, const PlanRequest& request) {
  plan::ProgramFacts facts(program, catalog);
  const std::vector<double> items = plan::estimate_items(plan, facts);
  double step = 0;    // what was computed and waited so far
  double wire = 0;    // when what was begun is over
  double waited = 0;  // of the step
  const auto wait = [&] {
    waited += std::max(0.0, wire - step);
    step = std::max(step, wire);
  };
  plan::walk_items(plan, [&](const plan::Item& item, int64_t number, plan::LoopId) {
    const auto* call = std::get_if<plan::Call>(&item);
    if (call != nullptr && program.graph.node(call->node).op->traits().exchanges) {
      wait();
      const graph::Exchanged sent =
          ops::exchanged_by(program.graph, call->node, request.ranks.count, program.batch);
      wire = step + seconds_of(sent, *request.network);
      if (!ops::goes_on_beside(program.graph.node(call->node))) wait();
    }
    step += items[static_cast<size_t>(number)];
  });
  return waited;
}

}  // namespace

report::RankExchange exchange_of(const graph::Program& program, const plan::ProgramPlan* plan,
                                 const graph::KernelCatalog& catalog, const PlanRequest& request) {
  const graph::Exchanged all = ops::exchanged_by(program.graph, request.ranks.count, program.batch);
  report::RankExchange exchange{Bytes(all.bytes), all.messages};
  if (!request.network) return exchange;
  exchange.seconds = seconds_of(all, *request.network);
  if (plan != nullptr) exchange.waited = find_waited(program, *plan, catalog, request);
  return exchange;
}

}  // namespace plimsoll::planning
