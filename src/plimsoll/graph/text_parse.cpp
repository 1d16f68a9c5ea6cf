#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "graph/lanes.h"
#include "graph/text.h"
#include "graph/text_impl.h"

namespace plimsoll::graph {
namespace {

// Bounds of what a text may ask for.
constexpr size_t kMaxTextBytes = size_t{256} << 20;
constexpr int kMaxRank = 16;
constexpr int64_t kMaxBatch = int64_t{1} << 32;
constexpr int64_t kMaxTensorBytes = int64_t{1} << 50;

// Takes words off one line; knows where it is for messages.
class Line {
 public:
  Line(std::string_view text, int number) : rest_(text), number_(number) {}

  [[noreturn]] void fail(const std::string& expected) const {
    const std::string_view received = rest_.substr(0, 40);
    fail_with("expected " + expected + ", received " +
              (received.empty() ? "the end of the line" : "\"" + std::string(received) + "\"") +
              ".");
  }
  [[noreturn]] void fail_with(const std::string& message) const {
    throw Error(ErrorKind::kModel, fmt::format("graph text, line {}: {}", number_, message));
  }

  bool at_end() {
    skip_blanks();
    return rest_.empty();
  }
  bool next_is(std::string_view symbol) {
    skip_blanks();
    return rest_.substr(0, symbol.size()) == symbol;
  }
  bool take(std::string_view symbol) {
    if (!next_is(symbol)) return false;
    rest_.remove_prefix(symbol.size());
    return true;
  }
  void expect(std::string_view symbol) {
    if (!take(symbol)) fail("\"" + std::string(symbol) + "\"");
  }
  void expect_end() {
    if (!at_end()) fail("the end of the line");
  }

  // A bare or quoted name.
  std::string name(const std::string& what) {
    skip_blanks();
    if (!rest_.empty() && rest_.front() == '"') return quoted();
    size_t length = 0;
    while (length < rest_.size() && is_bare_character(rest_[length])) ++length;
    if (length == 0) fail(what);
    return take_text(length);
  }

  std::string quoted() {
    std::string text;
    expect("\"");
    for (; !rest_.empty() && rest_.front() != '"'; rest_.remove_prefix(1)) {
      const bool escaped = rest_.front() == '\\' && rest_.size() > 1;
      if (escaped) rest_.remove_prefix(1);
      text += escaped && rest_.front() == 'n' ? '\n' : rest_.front();
    }
    if (rest_.empty()) fail("a closing quote");
    rest_.remove_prefix(1);
    return text;
  }

  int64_t integer() {
    skip_blanks();
    int64_t value = 0;
    const auto end = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (end.ec != std::errc()) fail("an integer");
    rest_.remove_prefix(static_cast<size_t>(end.ptr - rest_.data()));
    return value;
  }

  // "3" is an integer, "3.0", "1e-7", "inf" and "nan" are numbers.
  AttributeValue number() {
    skip_blanks();
    size_t length = 0;
    while (length < rest_.size() && is_bare_character(rest_[length])) ++length;
    const std::string_view word = rest_.substr(0, length);
    if (word.find_first_not_of("+-0123456789") == std::string_view::npos) return integer();
    double value = 0;
    const auto end = std::from_chars(word.data(), word.data() + word.size(), value);
    if (word.empty() || end.ec != std::errc() || end.ptr != word.data() + word.size()) {
      fail("true, false, a number, a string in quotes, or a list of integers");
    }
    rest_.remove_prefix(length);
    return value;
  }

  Shape shape() {
    skip_blanks();
    const size_t close = rest_.find(')');
    if (rest_.empty() || rest_.front() != '(' || close == std::string_view::npos) {
      fail("a shape such as (B, 28, 28, 1)");
    }
    const Shape result = located([&] { return parse_shape(rest_.substr(0, close + 1)); });
    if (result.rank() > kMaxRank) fail(fmt::format("at most {} dimensions", kMaxRank));
    rest_.remove_prefix(close + 1);
    return result;
  }

  ValueType type() {
    const std::string dtype = name("a dtype");
    ValueType result;
    result.dtype = located([&] { return parse_dtype(dtype); });
    result.shape = shape();
    const Bytes bytes = located([&] { return row_bytes(result.dtype, result.shape); });
    if (bytes.count() > kMaxTensorBytes) {
      fail_with(
          fmt::format("expected a tensor below 1 PiB, received {}.", to_string(result.shape)));
    }
    return result;
  }

  // Runs `body`; an error that leaves it names this line.
  template <typename Body>
  auto located(Body&& body) -> decltype(body()) {
    try {
      return body();
    } catch (const Error& error) {
      fail_with(error.message());
    }
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t')) {
      rest_.remove_prefix(1);
    }
  }
  std::string take_text(size_t length) {
    std::string text(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return text;
  }

  std::string_view rest_;
  int number_;
};

template <typename Enum, size_t kCount>
Enum parse_enum(Line& line, const std::string& word, const std::array<Enum, kCount>& all,
                const std::string& what) {
  std::array<std::string_view, kCount> names;
  std::string known;
  for (size_t i = 0; i < kCount; ++i) {
    names[i] = to_string(all[i]);
    if (names[i] == word) return all[i];
    known += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  line.fail_with("expected " + what + " (" + known + "), received \"" + word + "\"." +
                 did_you_mean(word, names));
}

constexpr std::array<Stage, 5> kStages = {Stage::kForward, Stage::kLoss, Stage::kBackward,
                                          Stage::kUpdate, Stage::kMetric};
constexpr std::array<StateRole, 6> kRoles = {
    StateRole::kWeight, StateRole::kOptimizerSlot, StateRole::kMovingStatistic,
    StateRole::kMetric, StateRole::kCounter,       StateRole::kHyperparameter};

AttributeValue parse_attribute(Line& line) {
  if (line.take("true")) return true;
  if (line.take("false")) return false;
  if (line.next_is("\"")) return line.quoted();
  if (!line.take("[")) return line.number();
  std::vector<int64_t> list;
  while (!line.take("]")) {
    if (!list.empty()) line.expect(",");
    list.push_back(line.integer());
  }
  return list;
}

class GraphParser {
 public:
  explicit GraphParser(const OpRegistry& registry) : registry_(registry) {}

  void parse(const std::string& word, Line& line) {
    if (word == "input") {
      parse_input(line);
    } else if (word == "state") {
      parse_state(line);
    } else if (word == "read") {
      parse_read(line);
    } else if (word == "node") {
      parse_node(line);
    } else if (word == "output") {
      graph_.outputs.push_back(operand(line));
      line.expect_end();
    } else {
      line.fail_with("expected input, state, read, node, output or program, received \"" + word +
                     "\"." +
                     did_you_mean(word, {"input", "state", "read", "node", "output", "program"}));
    }
  }

  Graph finish() {
    values_.clear();
    states_.clear();
    nodes_.clear();
    return std::exchange(graph_, {});
  }

 private:
  ValueId add_value(Line& line, Value value) {
    const ValueId id(graph_.values.size());
    if (!values_.emplace(value.name, id).second) {
      line.fail_with("expected a new name, received %" + value.name + ", which is taken.");
    }
    graph_.values.push_back(std::move(value));
    return id;
  }

  ValueId operand(Line& line) {
    line.expect("%");
    const std::string name = line.name("the name of a value");
    const auto it = values_.find(name);
    if (it == values_.end()) {
      line.fail_with("expected a value that stands above, received %" + name + "." +
                     suggestion(name, values_));
    }
    return it->second;
  }

  StateId state(Line& line) {
    const std::string name = line.name("the name of a state variable");
    const auto it = states_.find(name);
    if (it == states_.end()) {
      line.fail_with("expected a state variable that stands above, received " + name + "." +
                     suggestion(name, states_));
    }
    return it->second;
  }

  template <typename Table>
  static std::string suggestion(const std::string& name, const Table& table) {
    if (table.size() > 1000) return "";
    std::vector<std::string> names;
    names.reserve(table.size());
    for (const auto& entry : table) names.push_back(entry.first);
    return did_you_mean(name, names);
  }

  void parse_input(Line& line) {
    line.expect("%");
    Value value{.name = line.name("the name of a value"), .type = line.type()};
    value.kind = ValueKind::kInput;
    value.input = static_cast<int>(graph_.inputs.size());
    graph_.inputs.push_back(add_value(line, std::move(value)));
    line.expect_end();
  }

  void parse_state(Line& line) {
    const bool with_value = line.take("%");
    StateVariable variable;
    variable.name = line.name("the name of a state variable");
    variable.type = line.type();
    variable.role = parse_enum(line, line.name("a role"), kRoles, "a role");
    variable.trainable = line.take("trainable");
    if (line.take("layer=")) variable.layer = line.name("the name of a layer");
    line.expect_end();
    const StateId id(graph_.states.size());
    if (!states_.emplace(variable.name, id).second) {
      line.fail_with("expected a new name, received state " + variable.name + ", which is taken.");
    }
    graph_.states.push_back(std::move(variable));
    if (with_value) read_state(line, id, graph_.state(id).name);
  }

  void parse_read(Line& line) {
    line.expect("%");
    const std::string name = line.name("the name of a value");
    const StateId id = state(line);
    if (graph_.state(id).incoming.valid()) {
      line.fail_with("expected one incoming value of " + graph_.state(id).name +
                     ", received a second.");
    }
    read_state(line, id, name);
    line.expect_end();
  }

  void read_state(Line& line, StateId id, const std::string& name) {
    graph_.state(id).incoming = add_value(
        line,
        {.name = name, .type = graph_.state(id).type, .kind = ValueKind::kState, .state = id});
  }

  void parse_node(Line& line) {
    const NodeId id(graph_.nodes.size());
    Node node;
    node.name = line.name("the name of a node");
    if (!nodes_.emplace(node.name, id).second) {
      line.fail_with("expected a new name, received node " + node.name + ", which is taken.");
    }
    const std::string op = line.name("the name of an operator");
    node.op = line.located([&] { return &registry_.get(op); });
    line.expect("(");
    while (!line.take(")")) {
      if (!node.inputs.empty()) line.expect(",");
      node.inputs.push_back(operand(line));
    }
    line.expect("->");
    parse_results(line, id, node);
    line.expect("{");
    for (bool first = true; !line.take("}"); first = false) {
      if (!first) line.expect(",");
      std::string key = line.name("the name of an attribute");
      line.expect("=");
      node.attributes.set(std::move(key), parse_attribute(line));
    }
    if (line.take("layer=")) node.layer = line.name("the name of a layer");
    if (line.take("writes=")) parse_write(line, id, node);
    node.stage = parse_enum(line, line.name("a stage"), kStages, "a stage");
    line.expect_end();
    graph_.nodes.push_back(std::move(node));
  }

  void parse_results(Line& line, NodeId id, Node& node) {
    line.expect("(");
    while (!line.take(")")) {
      if (!node.outputs.empty()) line.expect(",");
      line.expect("%");
      Value value{.name = line.name("the name of a value"), .type = line.type()};
      value.producer = id;
      value.output = static_cast<int>(node.outputs.size());
      node.outputs.push_back(add_value(line, std::move(value)));
    }
  }

  void parse_write(Line& line, NodeId id, Node& node) {
    node.writes = state(line);
    StateVariable& variable = graph_.state(node.writes);
    if (variable.write.valid()) {
      line.fail_with("expected one write of " + variable.name + ", received a second.");
    }
    variable.write = id;
  }

  const OpRegistry& registry_;
  Graph graph_;
  std::map<std::string, ValueId, std::less<>> values_;
  std::map<std::string, StateId, std::less<>> states_;
  std::map<std::string, NodeId, std::less<>> nodes_;
};

// Calls `visit(word, line)` with the first word of every line that means something.
template <typename Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  if (text.size() > kMaxTextBytes) {
    throw Error(ErrorKind::kModel,
                fmt::format("graph text: expected at most 256 MiB, received {}.",
                            to_string(Bytes(static_cast<int64_t>(text.size())))));
  }
  int number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    Line line(text.substr(0, end), ++number);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.at_end() || line.next_is("#")) continue;
    const std::string word = line.name("input, state, read, node, output or program");
    visit(word, line);
  }
}

}  // namespace

Graph parse_graph(std::string_view text, const OpRegistry& registry) {
  GraphParser parser(registry);
  for_each_line(text, [&](const std::string& word, Line& line) { parser.parse(word, line); });
  return parser.finish();
}

namespace {

Share parse_share(Line& line, int64_t batch) {
  Share share;
  share.lane = line.integer();
  share.samples = line.integer();
  share.first = line.integer();
  share.each = line.integer();
  const auto within = [](int64_t number, int64_t least) {
    return number >= least && number <= kMaxBatch;
  };
  if (!within(share.lane, 1) || !within(share.samples, batch) || !within(share.first, 0) ||
      !within(share.each, share.lane)) {
    line.fail_with("expected a share of the batch: lane, samples, first and each.");
  }
  return share;
}

}  // namespace

ProgramSet parse_programs(std::string_view text, const OpRegistry& registry) {
  ProgramSet set;
  GraphParser parser(registry);
  for_each_line(text, [&](const std::string& word, Line& line) {
    if (word == "program") {
      if (!set.programs.empty()) set.programs.back().graph = parser.finish();
      set.programs.push_back({.name = line.name("the name of a program"), .graph = {}});
      line.expect("batch");
      const int64_t batch = line.integer();
      if (batch < 1 || batch > kMaxBatch) {
        line.fail_with(fmt::format("expected a batch size of 1 to 2^32, received {}.", batch));
      }
      set.programs.back().batch = batch;
      if (line.take("lanes")) {
        const int64_t lanes = line.integer();
        if (lanes < 1 || lanes > kMostLanes || (lanes & (lanes - 1)) != 0) {
          line.fail_with(fmt::format("expected a power of two up to {} as lanes, received {}.",
                                     kMostLanes, lanes));
        }
        set.programs.back().lanes = lanes;
      }
      if (line.take("share")) set.programs.back().share = parse_share(line, batch);
      line.expect_end();
      return;
    }
    if (set.programs.empty()) line.fail_with("expected a program line first.");
    parser.parse(word, line);
  });
  if (!set.programs.empty()) set.programs.back().graph = parser.finish();
  return set;
}

}  // namespace plimsoll::graph
