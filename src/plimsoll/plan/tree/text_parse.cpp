#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "graph/lanes.h"
#include "graph/op.h"
#include "plan/tree/complete.h"
#include "plan/tree/text.h"
#include "plan/tree/text_line.h"

namespace plimsoll::plan {
namespace {

constexpr size_t kMostTextBytes = size_t{1} << 28;
constexpr size_t kDeepestLoop = 64;

using NameTable = std::map<std::string_view, int32_t>;

// Finds a name or fails with a did-you-mean.
int32_t resolve(const NameTable& table, const std::string& name, std::string_view what,
                const TextLine& line) {
  const auto found = table.find(name);
  if (found != table.end()) return found->second;
  std::vector<std::string_view> known;
  for (const auto& [text, id] : table) known.push_back(text);
  line.fail("expected the name of a " + std::string(what) + ", received \"" + name + "\"." +
            did_you_mean(name, known));
}

uint64_t parse_fingerprint(const std::string& text, const TextLine& line) {
  uint64_t value = 0;
  bool good = text.size() == 16;
  for (char c : text) {
    const size_t digit = std::string_view("0123456789abcdef").find(c);
    good = good && digit != std::string_view::npos;
    value = value << 4 | (digit & 15);
  }
  if (!good)
    line.fail("expected a fingerprint of 16 hexadecimal digits, received \"" + text + "\".");
  return value;
}

// Reads the lines of one program.
class ProgramParser {
 public:
  ProgramParser(ProgramPlan& plan, const graph::Graph& graph) : plan_(plan), graph_(graph) {
    plan_.blocks.resize(graph.nodes.size());
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      nodes_.emplace(graph.nodes[n].name, static_cast<int32_t>(n));
      const size_t axes = graph::axes_of(graph, graph::NodeId(n)).size();
      plan_.blocks[n].assign(axes, graph::kWholeAxis);
    }
    for (size_t v = 0; v < graph.values.size(); ++v) {
      values_.emplace(graph.values[v].name, static_cast<int32_t>(v));
    }
  }

  // False where `word` opens no line of a program.
  bool parse(const std::string& word, TextLine& line);
  void finish(const TextLine& last);

 private:
  struct Declared {
    int32_t number = 0;
    int line = 0;
    Instance instance;
  };
  void place_instances();
  void parse_block(TextLine& line);
  void parse_instance(TextLine& line);
  void parse_instance_field(Instance& instance, const std::string& key, const std::string& value,
                            const TextLine& line);
  void parse_call(TextLine& line);
  void parse_call_field(Call& call, const std::string& key, const std::string& value,
                        const TextLine& line);
  void parse_encode(TextLine& line);
  void parse_begin(TextLine& line);
  void expect_loop_around(const std::string& axis, const TextLine& line) const;
  void parse_loop(TextLine& line);
  void parse_end(TextLine& line);
  std::vector<InstanceId> parse_operands(TextLine& line, bool droppable);
  static InstanceId take_instance(TextLine& line) {
    return InstanceId(line.take_number('%', "an instance"));
  }
  template <typename T>
  void append(T&& item) {
    body().emplace_back(std::forward<T>(item));
  }
  std::vector<Item>& body() {
    return open_.empty() ? plan_.items : plan_.loops[open_.back().index()].items;
  }

  ProgramPlan& plan_;
  const graph::Graph& graph_;
  NameTable nodes_;
  NameTable values_;
  std::vector<Declared> declared_;
  std::vector<LoopId> open_;  // loops that no `end` has closed yet
  std::vector<std::pair<int, std::pair<InstanceId, std::string>>> encoded_;  // line, target, form
};

bool ProgramParser::parse(const std::string& word, TextLine& line) {
  if (word == "block") {
    parse_block(line);
  } else if (word == "instance") {
    parse_instance(line);
  } else if (word == "call") {
    parse_call(line);
  } else if (word == "encode") {
    parse_encode(line);
  } else if (word == "feed") {
    append(Feed{take_instance(line)});
  } else if (word == "output" || word == "drain") {  // in plans written before
    append(Output{take_instance(line)});
  } else if (word == "begin") {
    parse_begin(line);
  } else if (word == "wait") {
    append(WaitTransfer{line.take_number('t', "a transfer")});
  } else if (word == "loop") {
    parse_loop(line);
  } else if (word == "end") {
    parse_end(line);
  } else {
    return false;
  }
  return true;
}

void ProgramParser::parse_block(TextLine& line) {
  const graph::NodeId node(resolve(nodes_, line.take_name("a node"), "node", line));
  const std::vector<graph::Axis> axes = graph::axes_of(graph_, node);
  while (!line.empty()) {
    std::string key, value;
    line.take_field(key, value);
    const int axis = graph::find_axis(axes, key);
    if (axis < 0) {
      std::vector<std::string> known;
      known.reserve(axes.size());
      for (const graph::Axis& each : axes) known.push_back(each.name);
      line.fail("expected an axis of " + graph_.node(node).name + ", received \"" + key + "\"." +
                did_you_mean(key, known));
    }
    const int64_t extent =
        value == "all" ? graph::kWholeAxis : line.parse_count(value, "rows of a block");
    plan_.blocks[node.index()][static_cast<size_t>(axis)] = extent;
  }
}

void ProgramParser::parse_instance(TextLine& line) {
  Declared declared{line.take_number('%', "an instance"), line.number(), {}};
  Instance& instance = declared.instance;
  instance.value = graph::ValueId(resolve(values_, line.take_name("a value"), "value", line));
  instance.scope = kAutoScope;
  while (!line.empty()) {
    std::string key, value;
    line.take_field(key, value);
    parse_instance_field(instance, key, value, line);
  }
  declared_.push_back(std::move(declared));
}

void ProgramParser::parse_instance_field(Instance& instance, const std::string& key,
                                         const std::string& value, const TextLine& line) {
  if (key == "form") {
    instance.form = value;
  } else if (key == "copy") {
    instance.copy = static_cast<int>(std::min<int64_t>(line.parse_count(value, "a copy"), 1 << 30));
  } else if (key == "space") {
    if (value != "arena" && value != "state" && value != "spill") {
      line.fail("expected space=arena, state or spill, received \"" + value + "\".");
    }
    instance.space = value == "arena"   ? Space::kArena
                     : value == "state" ? Space::kState
                                        : Space::kSpill;
  } else if (key == "scope" || key == "home") {  // in plans written before
    instance.scope = value == "root" ? LoopId() : LoopId(line.parse_number(value, 'L', "a loop"));
  } else if (key == "offset") {
    instance.offset = Bytes(line.parse_count(value, "an offset"));
  } else if (key == "bytes") {
    instance.bytes = Bytes(line.parse_count(value, "bytes"));
  } else if (key == "in_place") {
    instance.in_place = InstanceId(line.parse_number(value, '%', "an instance"));
  } else {
    line.fail_field(key, "form, copy, space, scope, offset, bytes, in_place");
  }
}

std::vector<InstanceId> ProgramParser::parse_operands(TextLine& line, bool droppable) {
  std::vector<InstanceId> operands;
  line.take_mark("(");
  while (!line.skip_mark(")")) {
    const std::string name = line.take_name("an instance or )");
    operands.push_back(droppable && name == "_"
                           ? InstanceId()
                           : InstanceId(line.parse_number(name, '%', "an instance")));
  }
  return operands;
}

void ProgramParser::parse_call(TextLine& line) {
  Call call;
  call.node = graph::NodeId(resolve(nodes_, line.take_name("a node"), "node", line));
  call.inputs = parse_operands(line, false);
  line.take_mark("->");
  call.outputs = parse_operands(line, true);
  while (!line.empty()) {
    std::string key, value;
    line.take_field(key, value);
    parse_call_field(call, key, value, line);
  }
  append(std::move(call));
}

void ProgramParser::parse_call_field(Call& call, const std::string& key, const std::string& value,
                                     const TextLine& line) {
  if (key == "clone") {
    call.clone = static_cast<int>(std::min<int64_t>(line.parse_count(value, "a clone"), 1 << 30));
  } else if (key == "scratch") {
    const size_t plus = value.find('+');
    if (plus == std::string::npos) {
      line.fail("expected scratch=OFFSET+BYTES, received \"" + value + "\".");
    }
    call.scratch_offset = Bytes(line.parse_count(value.substr(0, plus), "an offset"));
    call.scratch_bytes = Bytes(line.parse_count(value.substr(plus + 1), "bytes"));
  } else if (key == "bind") {
    const size_t colon = value.find(':');
    if (colon == std::string::npos) line.fail("expected bind=L0:AXIS, received \"" + value + "\".");
    call.bindings.emplace_back(LoopId(line.parse_number(value.substr(0, colon), 'L', "a loop")),
                               value.substr(colon + 1));
  } else {
    line.fail_field(key, "clone, scratch, bind");
  }
}

void ProgramParser::parse_encode(TextLine& line) {
  const std::string form = line.take_name("a saved form");
  Encode encode;
  encode.source = take_instance(line);
  line.take_mark("->");
  encode.target = take_instance(line);
  encoded_.push_back({line.number(), {encode.target, form}});
  append(encode);
}

// "dimension:stride:before:after" of an axis
static graph::AxisUse parse_rows(const TextLine& line, const std::string& axis,
                                 const std::string& text) {
  constexpr size_t kNumbers = 4;
  std::vector<int64_t> numbers;
  for (size_t from = 0; from <= text.size() && numbers.size() <= kNumbers;) {
    const size_t end = std::min(text.find(':', from), text.size());
    numbers.push_back(line.parse_count(text.substr(from, end - from), "a number of rows"));
    from = end + 1;
  }
  if (numbers.size() != kNumbers || numbers[1] < 1) {
    line.fail("expected " + axis + "=DIMENSION:STRIDE:BEFORE:AFTER, received " + axis + "=" + text +
              ".");
  }
  return {static_cast<int>(numbers[0]), numbers[1], numbers[2], numbers[3]};
}

void ProgramParser::expect_loop_around(const std::string& axis, const TextLine& line) const {
  std::string known;
  for (LoopId loop : open_) {
    const LoopAxis& around = plan_.loops[loop.index()].axis;
    if (around.name() == axis) return;
    known += (known.empty() ? "" : ", ") + around.name();
  }
  line.fail("expected the axis of a loop around the transfer (" + (known.empty() ? "none" : known) +
            "), received \"" + axis + "\".");
}

void ProgramParser::parse_begin(TextLine& line) {
  BeginTransfer begin;
  begin.number = line.take_number('t', "a transfer");
  begin.source = take_instance(line);
  line.take_mark("->");
  begin.target = take_instance(line);
  while (!line.empty()) {
    std::string axis;
    std::string value;
    line.take_field(axis, value);
    expect_loop_around(axis, line);
    begin.rows.push_back({axis, parse_rows(line, axis, value)});
  }
  append(begin);
}

void ProgramParser::parse_loop(TextLine& line) {
  const LoopId id(plan_.loops.size());
  const int32_t number = line.take_number('L', "a loop");
  if (number != id.raw()) {
    line.fail(
        fmt::format("expected loop L{} (loops are numbered as they are entered), received L{}.",
                    id.raw(), number));
  }
  if (open_.size() >= kDeepestLoop) line.fail("expected loops at most 64 deep.");
  Loop loop;
  loop.axis = line.take_name("an axis");
  while (!line.empty()) {
    std::string key, value;
    line.take_field(key, value);
    if (key != "extent" && key != "slice") line.fail_field(key, "extent, slice");
    (key == "extent" ? loop.extent : loop.slice) = line.parse_count(value, key);
  }
  append(Enter{id});
  plan_.loops.push_back(std::move(loop));
  open_.push_back(id);
}

void ProgramParser::parse_end(TextLine& line) {
  if (open_.empty()) line.fail("received \"end\" where no loop is open.");
  open_.pop_back();
}

void ProgramParser::place_instances() {
  std::vector<bool> seen(declared_.size());
  plan_.instances.resize(declared_.size());
  for (Declared& each : declared_) {
    const size_t index = static_cast<size_t>(each.number);
    if (index >= seen.size() || seen[index]) {
      TextLine("", each.line)
          .fail(fmt::format(
              "expected each of the {} instances to have one number below that, received %{}{}",
              seen.size(), each.number, index < seen.size() ? " for the second time." : "."));
    }
    seen[index] = true;
    plan_.instances[index] = std::move(each.instance);
  }
}

void ProgramParser::finish(const TextLine& last) {
  if (!open_.empty()) {
    last.fail(fmt::format("expected \"end\" of loop L{}, received the end of the program.",
                          open_.back().raw()));
  }
  place_instances();
  for (const auto& [line, what] : encoded_) {
    const auto& [target, form] = what;
    if (target.index() >= plan_.instances.size() || plan_.instances[target.index()].form != form) {
      TextLine("", line).fail(
          fmt::format("expected a target of the form {}, received %{}. Declare it with form={}.",
                      quote_name(form), target.raw(), quote_name(form)));
    }
  }
}

class PlanParser {
 public:
  explicit PlanParser(const graph::ProgramSet& programs) : programs_(programs) {}

  Plan parse_head(std::string_view text) {
    TextLine line(text.substr(0, text.find('\n')), 1);
    if (line.empty() || line.take_name("plan") != "plan") {
      line.fail("expected a plan, whose first line is \"plan kernel_set=…\".");
    }
    parse_plan(line);
    return std::move(plan_);
  }

  Plan parse(std::string_view text) {
    int number = 0;
    while (!text.empty()) {
      const size_t end = text.find('\n');
      TextLine line(text.substr(0, end), ++number);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      if (!line.empty()) parse_line(line);
    }
    finish_program(TextLine("", number));
    return std::move(plan_);
  }

 private:
  void parse_line(TextLine& line) {
    const std::string word = line.take_name("a word such as call");
    if (word == "program") {
      start_program(line);
    } else if (word == "plan") {
      parse_plan(line);
    } else if (word == "arena") {
      parse_arena(line);
    } else if (word == "state") {
      parse_state(line);
    } else if (!program_ || !program_->parse(word, line)) {
      fail_word(word, line);
    }
    if (!line.empty()) {
      line.fail("expected the end of the line, received \"" + line.take_name("") + "\".");
    }
  }

  void fail_word(const std::string& word, const TextLine& line) {
    static constexpr std::array<std::string_view, 14> kWords = {
        "arena", "begin",    "block", "call", "output",  "encode", "end",
        "feed",  "instance", "loop",  "plan", "program", "state",  "wait"};
    if (std::ranges::find(kWords, word) != kWords.end()) {
      line.fail("expected a line \"program NAME batch=N\" before \"" + word + "\".");
    }
    line.fail("expected a line of a plan, received \"" + word + "\"." + did_you_mean(word, kWords));
  }

  void finish_program(const TextLine& line) {
    if (program_) program_->finish(line);
    program_.reset();
  }

  void start_program(TextLine& line) {
    finish_program(line);
    ProgramPlan program;
    program.name = line.take_name("a program");
    const graph::Program* graph = graph::find_program(programs_, program.name);
    if (graph == nullptr) {
      std::vector<std::string> known;
      for (const graph::Program& each : programs_.programs) known.push_back(each.name);
      line.fail("expected the name of a program, received \"" + program.name + "\"." +
                did_you_mean(program.name, known));
    }
    program.batch = graph->batch;
    program.lane = graph::lane_length(*graph);
    while (!line.empty()) {
      std::string key, value;
      line.take_field(key, value);
      if (key != "batch" && key != "lane" && key != "arena") {
        line.fail_field(key, "batch, lane, arena");
      }
      const int64_t count = line.parse_count(value, key);
      if (key == "batch") program.batch = count;
      if (key == "lane") program.lane = count;
      if (key == "arena") program.arena_bytes = Bytes(count);
    }
    if (plan_.programs.size() >= programs_.programs.size()) {
      line.fail(fmt::format("expected at most {} programs.", programs_.programs.size()));
    }
    plan_.programs.reserve(programs_.programs.size());  // the parser keeps a reference
    plan_.programs.push_back(std::move(program));
    program_ = std::make_unique<ProgramParser>(plan_.programs.back(), graph->graph);
  }

  void parse_plan(TextLine& line) {
    while (!line.empty()) {
      std::string key, value;
      line.take_field(key, value);
      if (key == "kernel_set") {
        plan_.kernel_set = value;
      } else if (key == "fingerprint") {
        plan_.fingerprint = parse_fingerprint(value, line);
      } else if (key == "lanes") {
        plan_.lanes = line.parse_count(value, key);
      } else if (key == "block_set" || key == "parts" || key == "threads") {
        // Older texts call parts threads.
        const int64_t count = std::min<int64_t>(line.parse_count(value, key), 1 << 30);
        (key == "block_set" ? plan_.block_set : plan_.parts) = static_cast<int>(count);
      } else {
        line.fail_field(key, "kernel_set, block_set, parts, lanes, fingerprint");
      }
    }
  }

  void parse_arena(TextLine& line) {
    while (!line.empty()) {
      std::string key, value;
      line.take_field(key, value);
      Bytes* target = key == "bytes"   ? &plan_.arena_bytes
                      : key == "state" ? &plan_.state_bytes
                      : key == "spill" ? &plan_.spill_bytes
                                       : nullptr;
      if (target == nullptr) line.fail_field(key, "bytes, state, spill");
      *target = Bytes(line.parse_count(value, "bytes"));
    }
  }

  void parse_state(TextLine& line) {
    StatePlacement state;
    state.name = line.take_name("a state variable");
    while (!line.empty()) {
      std::string key, value;
      line.take_field(key, value);
      if (key == "space") {
        if (value != "state" && value != "spill") {
          line.fail("expected space=state or spill, received \"" + value + "\".");
        }
        state.space = value == "spill" ? Space::kSpill : Space::kState;
        continue;
      }
      if (key != "offset" && key != "bytes") line.fail_field(key, "space, offset, bytes");
      (key == "offset" ? state.offset : state.bytes) = Bytes(line.parse_count(value, key));
    }
    plan_.states.push_back(std::move(state));
  }

  const graph::ProgramSet& programs_;
  Plan plan_;
  std::unique_ptr<ProgramParser> program_;
};

}  // namespace

Plan parse(std::string_view text, const graph::ProgramSet& programs) {
  if (text.size() > kMostTextBytes) {
    throw Error(ErrorKind::kConfig,
                fmt::format("plan text: expected at most 256 MiB, received {}.",
                            to_string(Bytes(static_cast<int64_t>(text.size())))));
  }
  return PlanParser(programs).parse(text);
}

Plan parse_head(std::string_view text) {
  const graph::ProgramSet none;
  return PlanParser(none).parse_head(text);
}

}  // namespace plimsoll::plan
