#include "property/random_plan.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>

#include "graph/op.h"
#include "plan/tree/complete.h"
#include "plan/tree/cuts.h"

namespace plimsoll::property {
namespace {

using plan::Call;
using plan::InstanceId;
using plan::Item;
using plan::LoopId;

// Puts runs of root items into loops.
class LoopMaker {
 public:
  LoopMaker(plan::ProgramPlan& plan, const graph::Graph& graph, Random& random)
      : plan_(plan), graph_(graph), random_(random) {}

  void run() {
    const std::vector<Item> items = std::move(plan_.items);
    plan_.items.clear();
    plan_.items = wrap(items, plan_.batch, 0);
  }

 private:
  // Multiple of every block in a run; 0: the item cannot be in a loop over the batch.
  int64_t block_of(const Item& item) const {
    if (const auto* feed = std::get_if<plan::Feed>(&item)) {
      return graph_.value(value_of(feed->target)).type.shape.has_batch() ? 1 : 0;
    }
    if (const auto* output = std::get_if<plan::Output>(&item)) {
      const graph::Value& value = graph_.value(value_of(output->source));
      return value.type.shape.has_batch() && value.kind == graph::ValueKind::kNode ? 1 : 0;
    }
    const auto* call = std::get_if<Call>(&item);
    if (call == nullptr) return 0;
    const std::vector<graph::Axis> axes = graph::axes_of(graph_, call->node);
    const int axis = graph::find_axis(axes, graph::kBatchAxis);
    if (axis < 0) return 0;
    const graph::AxisKind kind = axes[static_cast<size_t>(axis)].kind;
    if (kind == graph::AxisKind::kWhole || kind == graph::AxisKind::kNormalize) return 0;
    return graph::concrete_block(graph_, call->node, plan_.blocks[call->node.index()],
                                 plan_.batch)[static_cast<size_t>(axis)];
  }

  graph::ValueId value_of(InstanceId id) const { return plan_.instances[id.index()].value; }

  // Whether the item reads a sum that is finished only after the run.
  bool reads_one_of(const Item& item, const std::set<InstanceId>& sums) const {
    if (const auto* output = std::get_if<plan::Output>(&item)) return sums.contains(output->source);
    const auto* call = std::get_if<Call>(&item);
    return call != nullptr &&
           std::ranges::any_of(call->inputs, [&](InstanceId id) { return sums.contains(id); });
  }

  void add_sums(const Item& item, std::set<InstanceId>& sums) const {
    const auto* call = std::get_if<Call>(&item);
    if (call == nullptr) return;
    for (InstanceId id : call->outputs) {
      if (id.valid() && !graph_.value(value_of(id)).type.shape.has_batch()) sums.insert(id);
    }
  }

  std::vector<Item> wrap(const std::vector<Item>& items, int64_t rows, int depth) {
    std::vector<Item> result;
    for (size_t i = 0; i < items.size();) {
      int64_t step = 1;
      std::set<InstanceId> sums;
      size_t end = i;
      while (end < items.size() && block_of(items[end]) > 0 && !reads_one_of(items[end], sums) &&
             (end == i || !random_.chance(8))) {
        step = std::lcm(step, block_of(items[end]));
        add_sums(items[end], sums);
        ++end;
      }
      if (end == i || depth > 2 || random_.chance(15)) {
        result.push_back(items[i++]);
        continue;
      }
      add_loop({items.begin() + static_cast<int64_t>(i), items.begin() + static_cast<int64_t>(end)},
               rows, step, depth, result);
      i = end;
    }
    return result;
  }

  void add_loop(const std::vector<Item>& items, int64_t rows, int64_t step, int depth,
                std::vector<Item>& result) {
    const int64_t slice =
        std::min(rows, step * random_.between(1, std::max<int64_t>(1, rows / step)));
    // A whole-batch block divides only whole loops; an inner slice must keep to the outer
    // iterations.
    if ((slice % step != 0 && slice != rows) || (depth > 0 && rows % slice != 0 && step > 1)) {
      result.insert(result.end(), items.begin(), items.end());
      return;
    }
    const LoopId id(plan_.loops.size());
    plan_.loops.push_back({std::string(graph::kBatchAxis), rows, slice, {}});
    result.push_back(plan::Enter{id});
    std::vector<Item> body = wrap(items, slice, depth + 1);
    plan_.loops[id.index()].items = std::move(body);
  }

  plan::ProgramPlan& plan_;
  const graph::Graph& graph_;
  Random& random_;
};

// Any value cut at any anchor in any way: what cannot be is left out.
std::vector<plan::Cut> random_cuts(const graph::Graph& graph, Random& random) {
  std::vector<plan::Cut> cuts;
  const auto below = [&](size_t size) {
    return static_cast<size_t>(random.between(0, static_cast<int64_t>(size) - 1));
  };
  const int64_t count = random.between(0, 12);
  for (int64_t c = 0; c < count && !graph.nodes.empty(); ++c) {
    plan::Cut cut{graph::ValueId(below(graph.values.size())),
                  graph::NodeId(below(graph.nodes.size())), plan::CutKind::kRecompute, ""};
    if (random.chance(40)) {
      cut.kind = plan::CutKind::kForm;
      cut.form = "positive_bits";
    }
    cuts.push_back(cut);
  }
  return cuts;
}

std::vector<Item>& random_body(plan::ProgramPlan& program, Random& random) {
  const int64_t body = random.between(0, static_cast<int64_t>(program.loops.size()));
  return body == 0 ? program.items : program.loops[static_cast<size_t>(body - 1)].items;
}

size_t random_index(Random& random, size_t size) {
  return static_cast<size_t>(random.between(0, static_cast<int64_t>(size) - 1));
}

Call* random_call(plan::ProgramPlan& program, Random& random) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::vector<Item>& items = random_body(program, random);
    if (items.empty()) continue;
    if (auto* call = std::get_if<Call>(&items[random_index(random, items.size())])) return call;
  }
  return nullptr;
}

std::string break_items(plan::ProgramPlan& program, Random& random) {
  std::vector<Item>& items = random_body(program, random);
  if (items.size() < 2) return "nothing";
  const size_t from = random_index(random, items.size());
  if (random.chance(25)) {
    items.erase(items.begin() + static_cast<int64_t>(from));
    return "an item removed";
  }
  const size_t to =
      random.chance(60) ? std::min(from + 1, items.size() - 1) : random_index(random, items.size());
  const Item moved = items[from];
  items.erase(items.begin() + static_cast<int64_t>(from));
  items.insert(items.begin() + static_cast<int64_t>(to), moved);
  return "an item moved from " + std::to_string(from) + " to " + std::to_string(to);
}

std::string break_in_place(plan::ProgramPlan& program, Random& random) {
  Call* call = random_call(program, random);
  if (call == nullptr || call->inputs.empty() || call->outputs.empty()) return "nothing";
  const InstanceId output = call->outputs[random_index(random, call->outputs.size())];
  const InstanceId input = call->inputs[random_index(random, call->inputs.size())];
  if (!output.valid() || program.instances[output.index()].in_place.valid()) return "nothing";
  plan::Instance& target = program.instances[output.index()];
  const plan::Instance& source = program.instances[input.index()];
  target.in_place = input;
  target.offset = source.offset;
  target.space = source.space;
  return "%" + std::to_string(output.raw()) + " in place of %" + std::to_string(input.raw());
}

std::vector<plan::BeginTransfer*> find_row_transfers(plan::ProgramPlan& program) {
  std::vector<plan::BeginTransfer*> found;
  for (plan::Loop& loop : program.loops) {
    for (Item& item : loop.items) {
      auto* begin = std::get_if<plan::BeginTransfer>(&item);
      if (begin != nullptr && !begin->rows.empty()) found.push_back(begin);
    }
  }
  return found;
}

std::string break_rows(std::span<plan::BeginTransfer* const> transfers, Random& random) {
  std::vector<plan::IterationRows>& axes = transfers[random_index(random, transfers.size())]->rows;
  graph::AxisUse& rows = axes[random_index(random, axes.size())].use;
  switch (random.between(0, 3)) {
    case 0:
      rows.before += random.between(-1, 1);
      return "a transfer begins " + std::to_string(rows.before) + " rows before";
    case 1:
      rows.after += random.between(-1, 1);
      return "a transfer ends " + std::to_string(rows.after) + " rows after";
    case 2:
      rows.stride += random.between(-1, 1);
      return "a transfer goes on by " + std::to_string(rows.stride);
    default:
      axes.clear();
      return "a transfer moves the rows of its iteration";
  }
}

std::string break_instance(plan::ProgramPlan& program, Random& random) {
  plan::Instance& instance = program.instances[random_index(random, program.instances.size())];
  if (random.chance(20) && !program.loops.empty()) {
    instance.scope =
        random.chance(50) ? LoopId() : LoopId(random_index(random, program.loops.size()));
    return "another scope";
  }
  const Bytes room = program.arena_bytes - instance.bytes;
  if (instance.space != plan::Space::kArena || room < plan::kAlignment) return "nothing";
  instance.offset = plan::kAlignment * random.between(0, room / plan::kAlignment);
  return "another offset";
}

}  // namespace

plan::Plan random_loops(const plan::Plan& flat, const graph::ProgramSet& programs,
                        const graph::KernelCatalog& catalog, Random& random, Bytes gap) {
  plan::Plan plan = flat;
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    plan::ProgramPlan& program = plan.programs[p];
    LoopMaker(program, programs.programs[p].graph, random).run();
    const plan::ProgramFacts facts(programs.programs[p], catalog);
    plan::apply_cuts(random_cuts(facts.graph(), random), facts, plan::find_dependencies(facts),
                     program);
    for (plan::Instance& instance : program.instances) instance.scope = plan::kAutoScope;
  }
  plan::complete_plan(plan, programs, catalog, {.gap = gap});
  return plan;
}

std::string break_plan(plan::Plan& plan, const graph::ProgramSet& programs, Random& random) {
  const size_t p = random_index(random, plan.programs.size());
  plan::ProgramPlan& program = plan.programs[p];
  const std::string where = programs.programs[p].name + ": ";
  const std::vector<plan::BeginTransfer*> transfers = find_row_transfers(program);
  if (!transfers.empty() && random.chance(60)) return where + break_rows(transfers, random);
  switch (random.between(0, 4)) {
    case 0:
    case 1:
      return where + break_items(program, random);
    case 2:
      return where + break_in_place(program, random);
    case 3:
      if (program.loops.empty()) return where + "nothing";
      program.loops[random_index(random, program.loops.size())].slice = random.between(1, 8);
      return where + "another slice";
    default:
      return where + break_instance(program, random);
  }
}

}  // namespace plimsoll::property
