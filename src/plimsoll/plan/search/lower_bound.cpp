#include <algorithm>
#include <set>
#include <utility>

#include "base/format.h"
#include "plan/core/extents.h"
#include "plan/search/all_facts.h"

namespace plimsoll::plan {
namespace {

using graph::NodeId;
using graph::ValueId;

// What one block of a node needs at once, whatever the plan around it looks like.
struct BlockNeed {
  Bytes operands;
  Bytes results;
  Bytes scratch;
  Bytes total() const { return operands + results + scratch; }
};

class NeedFinder {
 public:
  NeedFinder(ProgramFacts& facts, bool spill)
      : facts_(facts), graph_(facts.graph()), spill_(spill) {
    for (const graph::StateVariable& state : graph_.states) {
      if (state.write.valid()) written_.insert(graph_.node(state.write).inputs[0]);
    }
  }

  BlockNeed find(NodeId id) {
    const graph::Node& node = graph_.node(id);
    const std::vector<graph::ValueType> inputs = graph::input_types(graph_, id);
    const std::vector<graph::ValueType> outputs = graph::output_types(graph_, id);
    const graph::NodeTypes types{node.attributes, inputs, outputs};
    find_block(id);
    BlockNeed need;
    std::set<ValueId> seen;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (graph_.value(input).kind == graph::ValueKind::kState && !spill_) continue;
      if (seen.insert(input).second) need.operands += operand_bytes(types, i, id);
    }
    const std::vector<graph::Alias> aliases = node.op->aliases(types);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const bool shared =
          std::ranges::find(aliases, static_cast<int>(o), &graph::Alias::output) != aliases.end();
      const ValueId output = node.outputs[o];
      if (shared || written_.contains(output) || facts_.users()[output.index()].empty()) continue;
      need.results += instance_bytes(outputs[o], "", rows(outputs[o], id, o, true));
    }
    if (known_shape_) need.scratch = facts_.scratch(id, block_, {});
    return need;
  }

 private:
  // One block, along row-exact axes one row. Where such an axis may be called in any number of rows
  // no call of a known shape needs to be made, so nothing is known of scratch.
  void find_block(NodeId id) {
    block_.clear();
    known_shape_ = true;
    const std::vector<graph::Axis>& axes = facts_.axes(id);
    for (size_t a = 0; a < axes.size(); ++a) {
      const bool rows =
          axes[a].kind == graph::AxisKind::kMap || axes[a].kind == graph::AxisKind::kWindow;
      int64_t block = facts_.block(id)[a];
      if (rows && block > 1 && facts_.catalog().row_exact(graph_, id, static_cast<int>(a))) {
        block = 1;
        known_shape_ = false;
      }
      if (const int64_t lane = facts_.lane(id, a); lane > 0) block = std::min(block, lane);
      block_.push_back({{block, 1}});
    }
  }

  std::vector<int64_t> rows(const graph::ValueType& type, NodeId id, size_t operand,
                            bool output) const {
    std::vector<int64_t> rows = type.shape.at(facts_.batch());
    const std::vector<graph::Axis>& axes = facts_.axes(id);
    for (size_t a = 0; a < axes.size(); ++a) {
      const graph::AxisUse& use = (output ? axes[a].outputs : axes[a].inputs)[operand];
      if (use.dimension < 0) continue;
      int64_t& dimension = rows[static_cast<size_t>(use.dimension)];
      dimension = rows_of(use, {0, block_[a].front().rows}, dimension).size();
    }
    return rows;
  }

  // In the smallest form that the node's kernels accept.
  Bytes operand_bytes(const graph::NodeTypes& types, size_t input, NodeId id) const {
    const std::vector<int64_t> extents = rows(types.inputs[input], id, input, false);
    Bytes least = instance_bytes(types.inputs[input], "", extents);
    const graph::Op& op = *graph_.node(id).op;
    for (const std::string& form : op.saved_forms(types, static_cast<int>(input))) {
      least = min(least, instance_bytes(types.inputs[input], form, extents));
    }
    return least;
  }

  ProgramFacts& facts_;
  const graph::Graph& graph_;
  bool spill_;
  std::set<ValueId> written_;  // may lie in the memory of a state variable
  std::vector<BlockLengths> block_;
  bool known_shape_ = true;
};

std::string prove(Bytes state, bool spill, const graph::Program& program, NodeId id,
                  const BlockNeed& need) {
  std::string text = fmt::format("state variables take {}", to_string(state));
  if (!id.valid()) return text + ".";
  const graph::Node& node = program.graph.node(id);
  text = spill ? "one" : text + "; besides them one block of node " + node.name;
  if (!node.layer.empty()) text += " (layer " + node.layer + ")";
  text += fmt::format(
      " in program {} needs {} for its operands, {} for its results and {} of scratch at once.",
      program.name, to_string(need.operands), to_string(need.results), to_string(need.scratch));
  return text;
}

}  // namespace

AllFacts::AllFacts(const graph::ProgramSet& programs, const graph::KernelCatalog& catalog,
                   const graph::KernelCatalog* choice) {
  for (const graph::Program& program : programs.programs) {
    remembered_.push_back(catalog.remember(program.graph));
    all_.push_back(std::make_unique<ProgramFacts>(program, catalog));
    if (choice != nullptr) choice_.push_back(std::make_unique<ProgramFacts>(program, *choice));
  }
}

LowerBound find_lower_bound(const graph::ProgramSet& programs, const AllFacts& facts, bool spill) {
  Bytes state;
  for (const graph::StateVariable& variable : graph::states_of(programs)) {
    if (!spill) state += tensor_bytes(variable.type.dtype, variable.type.shape, 1);
  }
  BlockNeed most;
  const graph::Program* program = programs.programs.empty() ? nullptr : &programs.programs.front();
  NodeId where;
  for (const std::unique_ptr<ProgramFacts>& each : facts.all()) {
    NeedFinder finder(*each, spill);
    for (size_t n = 0; n < each->graph().nodes.size(); ++n) {
      const BlockNeed need = finder.find(NodeId(n));
      if (need.total() <= most.total()) continue;
      most = need;
      program = &each->program();
      where = NodeId(n);
    }
  }
  LowerBound bound{state + most.total(), ""};
  if (program != nullptr) bound.proof = prove(state, spill, *program, where, most);
  return bound;
}

Bytes lower_bound(const graph::ProgramSet& programs, const graph::KernelCatalog& catalog,
                  std::string* proof, bool spill) {
  const AllFacts facts(programs, catalog);
  LowerBound bound = find_lower_bound(programs, facts, spill);
  if (proof != nullptr) *proof = std::move(bound.proof);
  return bound.bytes;
}

}  // namespace plimsoll::plan
