#include "graph/verify.h"

#include <map>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "graph/op.h"

namespace plimsoll::graph {
namespace {

std::string type_text(const ValueType& type) {
  return fmt::format("{} {}", to_string(type.dtype), to_string(type.shape));
}

// Collects the first message; every check is skipped once there is one.
class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  std::optional<std::string> run() {
    check_names();
    check_ids();
    for (size_t i = 0; i < graph_.values.size() && ok(); ++i) check_value(ValueId(i));
    for (size_t i = 0; i < graph_.nodes.size() && ok(); ++i) check_node(NodeId(i));
    for (size_t i = 0; i < graph_.states.size() && ok(); ++i) check_state(StateId(i));
    return problem_;
  }

 private:
  bool ok() const { return !problem_.has_value(); }
  void expect(bool condition, const std::string& message) {
    if (ok() && !condition) problem_ = message;
  }
  template <typename IdType, typename Table>
  static bool in(IdType id, const Table& table) {
    return id.valid() && id.index() < table.size();
  }

  template <typename Table>
  void check_unique(const Table& table, const std::string& what) {
    std::set<std::string_view> seen;
    for (const auto& element : table) {
      expect(!element.name.empty(), what + " without a name");
      expect(seen.insert(element.name).second, "two " + what + "s are called " + element.name);
    }
  }

  void check_names() {
    check_unique(graph_.values, "value");
    check_unique(graph_.nodes, "node");
    check_unique(graph_.states, "state variable");
  }

  // Every id points into its table; afterwards the checks below may follow them.
  void check_ids() {
    for (ValueId id : graph_.inputs) expect(in(id, graph_.values), "an input is no value");
    for (ValueId id : graph_.outputs) expect(in(id, graph_.values), "an output is no value");
    for (const Node& node : graph_.nodes) {
      expect(node.op != nullptr, "node " + node.name + " has no operator");
      for (ValueId id : node.inputs) {
        expect(in(id, graph_.values), "node " + node.name + ": an operand is no value");
      }
      for (ValueId id : node.outputs) {
        expect(in(id, graph_.values), "node " + node.name + ": a result is no value");
      }
      expect(!node.writes.valid() || in(node.writes, graph_.states),
             "node " + node.name + " writes a state variable that does not exist");
    }
    for (const StateVariable& state : graph_.states) {
      expect(!state.incoming.valid() || in(state.incoming, graph_.values),
             "state variable " + state.name + ": its incoming value does not exist");
      expect(!state.write.valid() || in(state.write, graph_.nodes),
             "state variable " + state.name + ": its write does not exist");
    }
  }

  void check_value(ValueId id) {
    const Value& value = graph_.value(id);
    const std::string where = "value %" + value.name + ": ";
    for (int i = 0; i < value.type.shape.rank(); ++i) {
      expect(value.type.shape[i].count >= 1,
             fmt::format("{}expected positive dimensions, received {}", where,
                         to_string(value.type.shape)));
      expect(i == 0 || !value.type.shape[i].of_batch,
             where + "the batch stands in another dimension than the first");
    }
    if (!ok()) return;
    switch (value.kind) {
      case ValueKind::kNode:
        expect(in(value.producer, graph_.nodes) && value.output >= 0 &&
                   static_cast<size_t>(value.output) < graph_.node(value.producer).outputs.size() &&
                   graph_.node(value.producer).outputs[static_cast<size_t>(value.output)] == id,
               where + "its producer does not know it");
        break;
      case ValueKind::kInput:
        expect(value.input >= 0 && static_cast<size_t>(value.input) < graph_.inputs.size() &&
                   graph_.inputs[static_cast<size_t>(value.input)] == id,
               where + "it is not the input that it says it is");
        break;
      case ValueKind::kState:
        expect(in(value.state, graph_.states) && graph_.state(value.state).incoming == id,
               where + "its state variable does not know it");
        expect(!ok() || graph_.state(value.state).type == value.type,
               where + "it has another type than its state variable");
        break;
    }
  }

  void check_node(NodeId id) {
    const Node& node = graph_.node(id);
    const std::string where = "node " + node.name + ": ";
    for (ValueId input : node.inputs) {
      const Value& value = graph_.value(input);
      expect(value.kind != ValueKind::kNode || value.producer < id,
             where + "%" + value.name + " is read before it is made");
      if (value.kind != ValueKind::kState) continue;
      const NodeId write = graph_.state(value.state).write;
      expect(
          !write.valid() || id <= write,
          where + "state variable " + graph_.state(value.state).name + " is read after its write");
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& value = graph_.value(node.outputs[i]);
      expect(value.kind == ValueKind::kNode && value.producer == id &&
                 value.output == static_cast<int>(i),
             where + "its result %" + value.name + " does not know it");
    }
    if (!ok()) return;
    check_types(id, where);
    check_write(id, where);
    if (ok()) check_axes(id, where);
  }

  void check_types(NodeId id, const std::string& where) {
    const Node& node = graph_.node(id);
    const std::vector<ValueType> inputs = input_types(graph_, id);
    std::vector<ValueType> results;
    try {
      results = node.op->infer({node.attributes, inputs, {}});
    } catch (const Error& error) {
      expect(false, where + error.message());
      return;
    }
    expect(results.size() == node.outputs.size(),
           fmt::format("{}expected {} results, received {}", where, results.size(),
                       node.outputs.size()));
    for (size_t i = 0; i < results.size() && ok(); ++i) {
      const Value& value = graph_.value(node.outputs[i]);
      expect(value.type == results[i], where + "result %" + value.name + ": expected " +
                                           type_text(results[i]) + ", received " +
                                           type_text(value.type));
    }
  }

  void check_write(NodeId id, const std::string& where) {
    const Node& node = graph_.node(id);
    expect(node.op->traits().state_write == node.writes.valid(),
           where + (node.writes.valid() ? "only a state write writes a state variable"
                                        : "it writes no state variable"));
    if (!ok() || !node.writes.valid()) return;
    const StateVariable& state = graph_.state(node.writes);
    expect(state.write == id, where + "state variable " + state.name + " knows another write");
    expect(!node.inputs.empty() && graph_.value(node.inputs[0]).type == state.type,
           where + "expected a value of state variable " + state.name + "'s type, " +
               type_text(state.type));
  }

  void check_axes(NodeId id, const std::string& where) {
    const Node& node = graph_.node(id);
    const std::vector<ValueType> inputs = input_types(graph_, id);
    const std::vector<ValueType> outputs = output_types(graph_, id);
    const NodeTypes types{node.attributes, inputs, outputs};
    std::set<std::string> names;
    for (const Axis& axis : node.op->axes(types)) {
      const std::string place = where + "axis " + axis.name + ": ";
      expect(names.insert(axis.name).second, place + "declared twice");
      expect(axis.extent.count >= 1, place + "it has no rows");
      check_uses(axis, axis.inputs, inputs, place + "input ");
      check_uses(axis, axis.outputs, outputs, place + "output ");
    }
    for (const Alias& alias : node.op->aliases(types)) {
      expect(alias.input >= 0 && static_cast<size_t>(alias.input) < inputs.size() &&
                 alias.output >= 0 && static_cast<size_t>(alias.output) < outputs.size(),
             where + "an alias names an operand that does not exist");
    }
  }

  void check_uses(const Axis& axis, const std::vector<AxisUse>& uses,
                  const std::vector<ValueType>& types, const std::string& place) {
    expect(uses.size() == types.size(), place + "count differs from the node's");
    for (size_t i = 0; i < uses.size() && ok(); ++i) {
      const AxisUse& use = uses[i];
      const Shape& shape = types[i].shape;
      const std::string operand = fmt::format("{}{} ", place, i);
      expect(use.dimension >= -1 && use.dimension < shape.rank(),
             fmt::format("{}has no dimension {}", operand, use.dimension));
      if (!ok() || use.dimension < 0) continue;
      expect(use.stride >= 1, operand + "has a stride below 1");
      expect(shape[use.dimension].of_batch == axis.extent.of_batch,
             operand + "is of the batch where the axis is not, or the other way round");
    }
  }

  void check_state(StateId id) {
    const StateVariable& state = graph_.state(id);
    const std::string where = "state variable " + state.name + ": ";
    for (const Dim& dim : state.type.shape.dims()) {
      expect(!dim.of_batch && dim.count >= 1,
             fmt::format("{}expected constant positive dimensions, received {}", where,
                         to_string(state.type.shape)));
    }
    expect(!state.incoming.valid() || graph_.value(state.incoming).state == id,
           where + "its incoming value belongs to another");
    expect(!state.write.valid() || graph_.node(state.write).writes == id,
           where + "its write writes another");
  }

  const Graph& graph_;
  std::optional<std::string> problem_;
};

}  // namespace

std::optional<std::string> verify(const Graph& graph) { return Verifier(graph).run(); }

std::optional<std::string> verify(const ProgramSet& set) {
  std::set<std::string_view> program_names;
  std::map<std::string_view, const StateVariable*> states;
  for (const Program& program : set.programs) {
    const std::string where = "program " + program.name + ": ";
    if (!program_names.insert(program.name).second) return where + "there are two of that name";
    if (program.batch < 1) return where + "its batch size is below 1";
    if (std::optional<std::string> problem = verify(program.graph)) return where + *problem;
    for (const StateVariable& state : program.graph.states) {
      const StateVariable* first = states.emplace(state.name, &state).first->second;
      if (first->type != state.type || first->role != state.role) {
        return where + "state variable " + state.name +
               " has another type or role than in an earlier program: " + type_text(state.type) +
               " for " + type_text(first->type);
      }
    }
  }
  return std::nullopt;
}

}  // namespace plimsoll::graph
