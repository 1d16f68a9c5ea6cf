// Plans a graph of `task` nodes (toys/toy_ops.h), where each has the cost that it states and its
// result the bytes of its units, and nothing else takes time or memory.
//
//   plimsoll_plan_tool <GRAPH     GRAPH in the form of graph/text.h; one line per plan of the
//                                 frontier: bytes of the arena, tab, cost of all calls. Each plan
//                                 is made, validated, and its calls counted in its tree.

#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

#include "base/error.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "plan/core/walk.h"
#include "plan/search/planner.h"
#include "plan/validate/validator.h"
#include "toys/toy_ops.h"

namespace {

namespace graph = plimsoll::graph;
namespace plan = plimsoll::plan;
namespace toys = plimsoll::toys;
using plimsoll::Bytes;
using plimsoll::Error;
using plimsoll::ErrorKind;

int64_t cost_of(const graph::Graph& graph, graph::NodeId node) {
  return graph.node(node).attributes.get_int("cost");
}

// A cost of one is a second: what the planner counts besides is then below a rounding.
class TaskCatalog final : public graph::KernelCatalog {
 public:
  std::string kernel_set() const override { return "tasks"; }
  int block_set() const override { return 0; }
  int part_count() const override { return 1; }
  int thread_count() const override { return 1; }
  graph::Block block(const graph::Graph& graph, graph::NodeId node) const override {
    return graph::Block(graph::axes_of(graph, node).size(), graph::kWholeAxis);
  }
  Bytes scratch(const graph::Graph&, graph::NodeId, int64_t, std::span<const int64_t>,
                std::span<const std::string>) const override {
    return Bytes();
  }
  double seconds(const graph::Graph& graph, graph::NodeId node, int64_t,
                 std::span<const int64_t>) const override {
    return static_cast<double>(cost_of(graph, node));
  }
  bool row_exact(const graph::Graph&, graph::NodeId, int) const override { return false; }
  double spill_seconds(Bytes, Spill) const override { return 0; }
  double copy_seconds(Bytes) const override { return 0; }
};

// Counts the plan as it stands, not as the search estimated it.
int64_t count_cost(const plan::ProgramPlan& plan, const graph::Graph& graph) {
  int64_t cost = 0;
  plan::walk_items(plan, [&](const plan::Item& item, int64_t, plan::LoopId) {
    if (const auto* call = std::get_if<plan::Call>(&item)) cost += cost_of(graph, call->node);
  });
  return cost;
}

void print_plan(const graph::ProgramSet& programs, Bytes limit) {
  const TaskCatalog catalog;
  const plan::PlanOutcome outcome = plan::make_plan(programs, catalog, {.arena_limit = limit});
  const plan::Plan& plan = outcome.fits()->plan;
  const plan::Validation validation = plan::validate(plan, programs, catalog);
  if (!validation.ok()) throw Error(ErrorKind::kInternal, validation.message);
  const int64_t cost = count_cost(plan.programs.front(), programs.programs.front().graph);
  std::printf("%lld\t%lld\n", static_cast<long long>(plan.arena_bytes.count()),
              static_cast<long long>(cost));
}

void run(const std::string& text) {
  const graph::ProgramSet programs = graph::parse_programs(text, toys::registry());
  if (const auto wrong = graph::verify(programs)) throw Error(ErrorKind::kModel, *wrong);
  for (const plan::FrontierPoint& point : plan::make_plan(programs, TaskCatalog(), {}).frontier) {
    print_plan(programs, point.arena_bytes);
  }
}

}  // namespace

int main() {
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  try {
    run(text);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
