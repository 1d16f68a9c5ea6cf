#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "graph/op.h"
#include "graph/text.h"
#include "graph/text_impl.h"

namespace plimsoll::graph {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

// A name as it stands in the text: bare where its characters allow it.
std::string name_text(std::string_view name) {
  bool bare = !name.empty();
  for (char c : name) bare = bare && is_bare_character(c);
  return bare ? std::string(name) : quoted(name);
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string type_text(const ValueType& type) {
  return fmt::format("{} {}", to_string(type.dtype), to_string(type.shape));
}

class Printer {
 public:
  // `sink` takes the text in pieces; without one it is all returned.
  explicit Printer(const Graph& graph, const TextSink* sink = nullptr)
      : graph_(graph), sink_(sink) {}

  std::string print() {
    for (const Value& value : graph_.values) {
      switch (value.kind) {
        case ValueKind::kInput:
          print_input(value);
          break;
        case ValueKind::kState:
          print_incoming(value);
          break;
        case ValueKind::kNode:
          print_nodes_to(value.producer.index());
          break;
      }
    }
    if (!graph_.nodes.empty()) print_nodes_to(graph_.nodes.size() - 1);
    if (!graph_.states.empty()) declare_states_to(graph_.states.size() - 1);
    for (ValueId id : graph_.outputs) text_ += "output " + reference(id) + "\n";
    hand_on(0);
    return std::move(text_);
  }

 private:
  std::string reference(ValueId id) const { return "%" + name_text(graph_.value(id).name); }

  void print_input(const Value& value) {
    text_ += "input %" + name_text(value.name) + " " + type_text(value.type) + "\n";
  }

  void declare_state(size_t index, bool with_value) {
    const StateVariable& state = graph_.states[index];
    text_ += std::string("state ") + (with_value ? "%" : "") + name_text(state.name) + " " +
             type_text(state.type) + " " + std::string(to_string(state.role));
    if (state.trainable) text_ += " trainable";
    if (!state.layer.empty()) text_ += " layer=" + name_text(state.layer);
    text_ += "\n";
  }

  void declare_states_to(size_t last) {
    for (; next_state_ <= last; ++next_state_) declare_state(next_state_, false);
  }

  void print_incoming(const Value& value) {
    const size_t index = value.state.index();
    const std::string& name = graph_.states[index].name;
    if (index > 0) declare_states_to(index - 1);
    if (next_state_ == index && name == value.name) {
      declare_state(next_state_++, true);
      return;
    }
    declare_states_to(index);
    text_ += "read %" + name_text(value.name) + " " + name_text(name) + "\n";
  }

  void print_nodes_to(size_t last) {
    for (; next_node_ <= last; ++next_node_) print_node(graph_.nodes[next_node_]);
  }

  void print_node(const Node& node) {
    if (node.writes.valid()) declare_states_to(node.writes.index());
    text_ += "node " + name_text(node.name) + " " + std::string(node.op->name()) + " (";
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      text_ += (i == 0 ? "" : ", ") + reference(node.inputs[i]);
    }
    text_ += ") -> (";
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      text_ += (i == 0 ? "" : ", ") + reference(node.outputs[i]) + " " +
               type_text(graph_.value(node.outputs[i]).type);
    }
    text_ += ") {";
    bool first = true;
    for (const auto& [key, value] : node.attributes.entries()) {
      text_ += (first ? "" : ", ") + name_text(key) + "=" + graph::print(value);
      first = false;
    }
    text_ += "}";
    if (!node.layer.empty()) text_ += " layer=" + name_text(node.layer);
    if (node.writes.valid()) text_ += " writes=" + name_text(graph_.state(node.writes).name);
    text_ += " " + std::string(to_string(node.stage)) + "\n";
    hand_on(kPieceBytes);
  }

  void hand_on(size_t from) {
    if (sink_ == nullptr || text_.size() < from) return;
    (*sink_)(text_);
    text_.clear();
  }

  static constexpr size_t kPieceBytes = 16 << 10;

  const Graph& graph_;
  const TextSink* sink_;
  std::string text_;
  size_t next_state_ = 0;
  size_t next_node_ = 0;
};

}  // namespace

std::string print(const AttributeValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const double* number = std::get_if<double>(&value)) return number_text(*number);
  if (const std::string* text = std::get_if<std::string>(&value)) return quoted(*text);
  std::string list = "[";
  for (int64_t item : std::get<std::vector<int64_t>>(value)) {
    if (list.size() > 1) list += ", ";
    list += std::to_string(item);
  }
  return list + "]";
}

std::string print(const Graph& graph) { return Printer(graph).print(); }

std::string print(const ProgramSet& set) {
  std::string text;
  print(set, [&](std::string_view piece) { text += piece; });
  return text;
}

void print(const ProgramSet& set, const TextSink& sink) {
  for (const Program& program : set.programs) {
    sink(fmt::format("program {} batch {}", name_text(program.name), program.batch));
    if (program.lanes != 1) sink(fmt::format(" lanes {}", program.lanes));
    if (program.share) {
      const Share& share = *program.share;
      sink(fmt::format(" share {} {} {} {}", share.lane, share.samples, share.first, share.each));
    }
    sink("\n");
    Printer(program.graph, &sink).print();
  }
}

}  // namespace plimsoll::graph
