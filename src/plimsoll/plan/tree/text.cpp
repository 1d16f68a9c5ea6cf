#include "plan/tree/text.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "graph/op.h"
#include "plan/tree/complete.h"
#include "plan/tree/text_line.h"

namespace plimsoll::plan {
namespace {

std::string count(Bytes bytes) { return std::to_string(bytes.count()); }
std::string number(InstanceId id) { return fmt::format("%{}", id.raw()); }
std::string number(LoopId id) { return fmt::format("L{}", id.raw()); }

class ProgramPrinter {
 public:
  ProgramPrinter(const ProgramPlan& plan, const graph::Graph& graph, std::string& text)
      : plan_(plan), graph_(graph), text_(text) {}

  void print() {
    text_ += fmt::format("program {} batch={}", quote_name(plan_.name), plan_.batch);
    if (plan_.lane != 0) text_ += fmt::format(" lane={}", plan_.lane);
    text_ += fmt::format(" arena={}\n", count(plan_.arena_bytes));
    PLIMSOLL_CHECK(plan_.blocks.size() == graph_.nodes.size(), "a plan has a block per node");
    for (size_t n = 0; n < plan_.blocks.size(); ++n) print_block(graph::NodeId(n));
    for (size_t i = 0; i < plan_.instances.size(); ++i) print_instance(i);
    print_items(plan_.items, 0);
    PLIMSOLL_CHECK(entered_ == plan_.loops.size(), "a loop that is never entered has no text");
  }

 private:
  std::string node_name(graph::NodeId id) const {
    PLIMSOLL_CHECK(id.valid() && id.index() < graph_.nodes.size(), "a call of no node");
    return quote_name(graph_.node(id).name);
  }

  void print_block(graph::NodeId node) {
    const graph::Block& block = plan_.blocks[node.index()];
    const std::vector<graph::Axis> axes = graph::axes_of(graph_, node);
    PLIMSOLL_CHECK(block.size() == axes.size(), "a block whose axes are not the node's");
    const auto cut = [](int64_t extent) { return extent != graph::kWholeAxis; };
    if (std::ranges::none_of(block, cut)) return;
    text_ += "block " + node_name(node);
    for (size_t a = 0; a < block.size(); ++a) {
      if (block[a] == graph::kWholeAxis) continue;
      text_ += fmt::format(" {}={}", quote_name(axes[a].name), block[a]);
    }
    text_ += "\n";
  }

  void print_instance(size_t index) {
    const Instance& instance = plan_.instances[index];
    PLIMSOLL_CHECK(instance.value.valid() && instance.value.index() < graph_.values.size(),
                   "an instance of no value");
    text_ += fmt::format("instance %{} {}", index, quote_name(graph_.value(instance.value).name));
    if (!instance.form.empty()) text_ += " form=" + quote_name(instance.form);
    if (instance.copy != 0) text_ += fmt::format(" copy={}", instance.copy);
    if (instance.space == Space::kState) text_ += " space=state";
    if (instance.space == Space::kSpill) text_ += " space=spill";
    if (instance.scope != kAutoScope) {
      text_ += " scope=" + (instance.scope.valid() ? number(instance.scope) : std::string("root"));
    }
    text_ += " offset=" + count(instance.offset) + " bytes=" + count(instance.bytes);
    if (instance.in_place.valid()) text_ += " in_place=" + number(instance.in_place);
    text_ += "\n";
  }

  void print_items(const std::vector<Item>& items, int depth) {
    for (const Item& item : items) {
      text_.append(2 * static_cast<size_t>(depth), ' ');
      std::visit([&](const auto& what) { print_item(what, depth); }, item);
    }
  }

  void print_operands(const std::vector<InstanceId>& operands) {
    text_ += "(";
    for (size_t i = 0; i < operands.size(); ++i) {
      text_ += i == 0 ? "" : " ";
      text_ += operands[i].valid() ? number(operands[i]) : std::string("_");
    }
    text_ += ")";
  }

  void print_item(const Call& call, int) {
    text_ += "call " + node_name(call.node) + " ";
    print_operands(call.inputs);
    text_ += " -> ";
    print_operands(call.outputs);
    if (call.clone != 0) text_ += fmt::format(" clone={}", call.clone);
    if (call.scratch_offset != Bytes() || call.scratch_bytes != Bytes()) {
      text_ += " scratch=" + count(call.scratch_offset) + "+" + count(call.scratch_bytes);
    }
    for (const auto& [loop, axis] : call.bindings) {
      text_ += " bind=" + number(loop) + ":" + quote_name(axis);
    }
    text_ += "\n";
  }
  void print_item(const Encode& encode, int) {
    PLIMSOLL_CHECK(encode.target.valid() && encode.target.index() < plan_.instances.size(),
                   "an encoded instance that does not exist");
    text_ += "encode " + quote_name(plan_.instances[encode.target.index()].form) + " " +
             number(encode.source) + " -> " + number(encode.target) + "\n";
  }
  void print_item(const Feed& feed, int) { text_ += "feed " + number(feed.target) + "\n"; }
  void print_item(const Output& output, int) { text_ += "output " + number(output.source) + "\n"; }
  void print_item(const BeginTransfer& begin, int) {
    text_ +=
        fmt::format("begin t{} {} -> {}", begin.number, number(begin.source), number(begin.target));
    for (const auto& [axis, use] : begin.rows) {
      text_ += fmt::format(" {}={}:{}:{}:{}", quote_name(axis.name()), use.dimension, use.stride,
                           use.before, use.after);
    }
    text_ += "\n";
  }
  void print_item(const WaitTransfer& wait, int) {
    text_ += fmt::format("wait t{}\n", wait.number);
  }
  void print_item(const Enter& enter, int depth) {
    PLIMSOLL_CHECK(enter.loop == LoopId(entered_) && entered_ < plan_.loops.size(),
                   "loops are numbered in the order in which they are entered");
    ++entered_;
    const Loop& loop = plan_.loops[enter.loop.index()];
    text_ += fmt::format("loop {} {} extent={} slice={}\n", number(enter.loop),
                         quote_name(loop.axis.name()), loop.extent, loop.slice);
    print_items(loop.items, depth + 1);
    text_.append(2 * static_cast<size_t>(depth), ' ');
    text_ += "end\n";
  }

  const ProgramPlan& plan_;
  const graph::Graph& graph_;
  std::string& text_;
  size_t entered_ = 0;
};

}  // namespace

std::string print(const Plan& plan, const graph::ProgramSet& programs) {
  std::string text = fmt::format("{}{} block_set={} parts={}", kPlanBegins,
                                 quote_name(plan.kernel_set), plan.block_set, plan.parts);
  if (plan.lanes != 1) text += fmt::format(" lanes={}", plan.lanes);
  text += " fingerprint=" + to_hex(plan.fingerprint) + "\n";
  text += "arena bytes=" + count(plan.arena_bytes) + " state=" + count(plan.state_bytes) +
          " spill=" + count(plan.spill_bytes) + "\n";
  for (const StatePlacement& state : plan.states) {
    text += "state " + quote_name(state.name) +
            (state.space == Space::kSpill ? " space=spill" : "") +
            " offset=" + count(state.offset) + " bytes=" + count(state.bytes) + "\n";
  }
  for (const ProgramPlan& program : plan.programs) {
    const graph::Program* graph = graph::find_program(programs, program.name);
    PLIMSOLL_CHECK(graph != nullptr, "a plan of a program that is not in the set");
    ProgramPrinter(program, graph->graph, text).print();
  }
  return text;
}

}  // namespace plimsoll::plan
