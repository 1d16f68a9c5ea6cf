#include "ops/fuse/shards.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "graph/ranks.h"
#include "ops/fuse/rewrite.h"

namespace plimsoll::ops {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::StateId;
using graph::ValueId;
using graph::ValueKind;
using graph::ValueType;

constexpr std::string_view kSum = "rank_sum";
constexpr std::string_view kSquares = "sum_squares";
// An update of a table by what was read of it, whose rows are by themselves.
constexpr std::array<std::string_view, 2> kOnRows = {"adam_rows", "adam_rows_amsgrad"};
// One number throughout, of the shape in their attribute.
constexpr std::array<std::string_view, 3> kFills = {"constant", "ones", "zeros"};

int64_t elements_of(const ValueType& type) {
  return type.shape.has_batch() ? 0 : type.shape.element_count(1);
}

// Which operands of a node are in parts where its results are; none: it works on whole values.
using PartedOperands = std::optional<std::vector<bool>>;

PartedOperands parted_operands(const Graph& graph, const Node& node, int64_t ranks) {
  if (node.outputs.empty()) return std::nullopt;
  const ValueType& type = graph.value(node.outputs[0]).type;
  if (type.shape.has_batch() || type.shape.rank() == 0) return std::nullopt;
  const bool rows = std::ranges::find(kOnRows, node.op->name()) != kOnRows.end();
  const graph::OpTraits traits = node.op->traits();
  const bool by_elements = traits.elementwise && !traits.random;
  if (rows ? !graph::has_parts_of_rows(type.shape, ranks) : !by_elements) return std::nullopt;
  std::vector<bool> parted;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueType& operand = graph.value(node.inputs[i]).type;
    const bool read = rows && (i == 1 || i == 2);  // numbers of rows, and their gradients
    if (!read && operand != type && operand.shape.rank() > 0) return std::nullopt;
    parted.push_back(!read && operand == type);
  }
  const bool alike = std::ranges::all_of(
      node.outputs, [&](ValueId output) { return graph.value(output).type == type; });
  const bool any = std::ranges::find(parted, true) != parted.end();
  return any && alike ? PartedOperands(std::move(parted)) : std::nullopt;
}

bool fills(const Node& node) { return std::ranges::find(kFills, node.op->name()) != kFills.end(); }

bool is_sum_by_elements(const Node& node) {
  return node.op->name() == kSum && node.attributes.get_int("rows_per_sample") == 0;
}

// What becomes of the nodes of one graph.
class Parting {
 public:
  Parting(const Graph& graph, const std::vector<ShardedState>& sharded, const ShardOptions& options)
      : graph_(graph),
        options_(options),
        users_(graph::find_users(graph)),
        parted_(graph.nodes.size(), false),
        in_parts_(graph.values.size(), false) {
    for (const ShardedState& state : sharded) sharded_.insert(state.name);
    for (ValueId output : graph.outputs) outputs_.insert(output);
    for (const graph::StateVariable& state : graph.states) {
      if (is_sharded(state) && state.incoming.valid()) in_parts_[state.incoming.index()] = true;
    }
    go_forward();
    go_back();
  }

  bool is_sharded(const graph::StateVariable& state) const { return sharded_.contains(state.name); }
  // A node that works on parts of its operands, or a sum of which each rank gets its part.
  bool is_parted(NodeId node) const { return parted_[node.index()]; }
  bool is_in_parts(ValueId value) const { return in_parts_[value.index()]; }
  // Σ x² of a value that is there in parts.
  bool is_norm_of_parts(NodeId id) const {
    const Node& node = graph_.node(id);
    return takes_norms_of_parts() && node.op->name() == kSquares && is_in_parts(node.inputs[0]);
  }

 private:
  bool takes_norms_of_parts() const { return options_.stage >= 2; }

  void part(NodeId id) {
    parted_[id.index()] = true;
    const Node& node = graph_.node(id);
    // The second result of an exchange is for the next one.
    const size_t count = node.op->traits().exchanges ? 1 : node.outputs.size();
    for (size_t o = 0; o < count; ++o) in_parts_[node.outputs[o].index()] = true;
  }

  bool may_part(const Node& node) const {
    return std::ranges::none_of(node.outputs,
                                [&](ValueId output) { return outputs_.contains(output); });
  }

  // Whether an update without slots is one of gradients that are parts.
  bool updates_weight(const Node& node) const {
    if (options_.stage < 2 || node.stage != graph::Stage::kUpdate) return false;
    return std::ranges::any_of(node.outputs, [&](ValueId output) {
      return std::ranges::any_of(users_[output.index()], [&](NodeId user) {
        const StateId state = graph_.node(user).writes;
        return state.valid() && graph_.state(state).role == graph::StateRole::kWeight &&
               elements_of(graph_.state(state).type) >= options_.least;
      });
    });
  }

  // What reads a part gives parts.
  void go_forward() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const PartedOperands parted = parted_operands(graph_, node, options_.ranks);
      if (!parted || !may_part(node)) continue;
      bool reads = updates_weight(node);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        reads = reads || ((*parted)[i] && is_in_parts(node.inputs[i]));
      }
      if (reads) part(NodeId(n));
    }
  }

  // What nobody needs whole is made in parts.
  void go_back() {
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      if (is_parted(NodeId(n)) || node.outputs.empty() || !may_part(node)) continue;
      const bool sum = is_sum_by_elements(node);
      if (!sum && !fills(node) && !parted_operands(graph_, node, options_.ranks)) continue;
      const std::vector<ValueId> values(node.outputs.begin(),
                                        sum ? node.outputs.begin() + 1 : node.outputs.end());
      if (std::ranges::all_of(values, [&](ValueId value) { return needs_parts(value); })) {
        part(NodeId(n));
      }
    }
  }

  bool needs_parts(ValueId value) const {
    bool any = false;
    for (NodeId id : users_[value.index()]) {
      const Node& user = graph_.node(id);
      const bool writes = user.writes.valid() && is_sharded(graph_.state(user.writes));
      if (writes || takes_part(id, value)) {
        any = true;
      } else if (!takes_norms_of_parts() || user.op->name() != kSquares) {
        return false;
      }
    }
    return any;
  }

  bool takes_part(NodeId id, ValueId value) const {
    if (!is_parted(id)) return false;
    const Node& node = graph_.node(id);
    const PartedOperands parted = parted_operands(graph_, node, options_.ranks);
    for (size_t i = 0; parted && i < node.inputs.size(); ++i) {
      if (node.inputs[i] == value && !(*parted)[i]) return false;
    }
    return parted.has_value();
  }

  const Graph& graph_;
  const ShardOptions& options_;
  std::vector<std::vector<NodeId>> users_;
  std::set<std::string, std::less<>> sharded_;
  std::set<ValueId> outputs_;
  std::vector<bool> parted_;    // by node
  std::vector<bool> in_parts_;  // by value
};

// Weights in parts, in groups by the layers that use them: each has about as many bytes.
class WeightGroups {
 public:
  WeightGroups(const Graph& graph, const Parting& parting) {
    constexpr int64_t kGroups = 8;
    std::vector<ValueId> order;
    int64_t all = 0;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      for (ValueId input : graph.nodes[n].inputs) {
        if (!is_weight(graph, input) || !parting.is_in_parts(input)) continue;
        if (!group_.try_emplace(input, 0).second) continue;
        order.push_back(input);
        all += elements_of(graph.value(input).type);
      }
    }
    int64_t before = 0;
    for (ValueId weight : order) {
      group_[weight] = static_cast<int>(before * kGroups / std::max<int64_t>(all, 1));
      before += elements_of(graph.value(weight).type);
    }
  }

  // The value is put together next; whether another group's weights were so before.
  bool enter(ValueId value) {
    const auto group = group_.find(value);
    if (group == group_.end() || group->second == current_) return false;
    const bool begins = current_ >= 0;
    current_ = group->second;
    ++run_;
    return begins;
  }
  int run() const { return run_; }

 private:
  static bool is_weight(const Graph& graph, ValueId value) {
    const graph::Value& v = graph.value(value);
    return v.kind == ValueKind::kState && graph.state(v.state).role == graph::StateRole::kWeight;
  }

  std::map<ValueId, int> group_;  // of weights
  int current_ = -1;
  int run_ = 0;
};

class Shards {
 public:
  Shards(const Graph& graph, const std::vector<ShardedState>& sharded, const ShardOptions& options)
      : graph_(graph),
        options_(options),
        parting_(graph, sharded, options),
        groups_(graph, parting_) {}

  // State variables as a rank has them.
  void declare(Replay& replay) const {
    for (graph::StateVariable& state : replay.builder().mutable_graph().states) {
      if (parting_.is_sharded(state)) state.type = part_type(state.type);
    }
  }

  void visit(Replay& replay, NodeId id) {
    const Node& node = graph_.node(id);
    replay.builder().set_layer(node.layer);
    replay.builder().set_stage(node.stage);
    if (node.writes.valid()) {
      const bool in_parts = parting_.is_sharded(graph_.state(node.writes));
      const ValueId value = node.inputs[0];
      replay.copy(id, {in_parts ? part(replay, value) : whole(replay, value, node.writes)});
    } else if (parting_.is_norm_of_parts(id)) {
      const ValueId squares =
          exchange(replay, "rank_squares", node.name, {replay.mapped(node.inputs[0])},
                   {{"parts", options_.ranks},
                    {"shape", graph_.value(node.inputs[0]).type.shape.at(1)},
                    {"factor", node.attributes.get_double("factor")}});
      replay.replace(node.outputs[0], squares);
    } else if (node.op->traits().exchanges) {
      copy_exchange(replay, id);
    } else if (parting_.is_parted(id)) {
      add_parted(replay, id);
    } else {
      std::vector<ValueId> inputs;
      for (ValueId input : node.inputs) inputs.push_back(whole(replay, input));
      replay.copy(id, std::move(inputs));
    }
    for (ValueId output : node.outputs) {
      if (graph_.value(output).type.shape.has_batch()) samples_ = replay.mapped(output);
    }
  }

 private:
  ValueType part_type(const ValueType& whole) const {
    return {whole.dtype, graph::part_shape(whole.shape, options_.ranks)};
  }

  // Adds a node that exchanges, after the one before.
  ValueId exchange(Replay& replay, std::string_view op, const std::string& name,
                   std::vector<ValueId> inputs, graph::Attributes attributes) {
    if (last_.valid()) inputs.push_back(last_);
    const NodeId added = replay.builder().add(op, name, std::move(inputs), std::move(attributes));
    const std::vector<ValueId>& outputs = replay.builder().graph().node(added).outputs;
    last_ = outputs[1];
    return outputs[0];
  }

  void copy_exchange(Replay& replay, NodeId id) {
    const Node& node = graph_.node(id);
    const bool parted = parting_.is_parted(id);
    const ValueId x = parted ? replay.mapped(node.inputs[0]) : whole(replay, node.inputs[0]);
    const graph::Attributes in_parts{{"parts", options_.ranks}};
    replay.replace(node.outputs[0], exchange(replay, parted ? "rank_scatter" : node.op->name(),
                                             node.name, {x}, parted ? in_parts : node.attributes));
  }

  void add_parted(Replay& replay, NodeId id) {
    const Node& node = graph_.node(id);
    const ValueType type = graph_.value(node.outputs[0]).type;
    const PartedOperands parted = parted_operands(graph_, node, options_.ranks);
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (!(*parted)[i]) {
        inputs.push_back(whole(replay, input));
        continue;
      }
      inputs.push_back(part(replay, input));
      if (graph_.value(input).kind == ValueKind::kState && !parting_.is_in_parts(input)) {
        of_state_.try_emplace(node.outputs[0], graph_.value(input).state);
      }
    }
    graph::Attributes attributes = node.attributes;
    if (parted && std::ranges::find(kOnRows, node.op->name()) != kOnRows.end()) {
      attributes.set("part_rows", part_type(type).shape[0].count);
    }
    if (fills(node)) attributes.set("shape", part_type(type).shape.at(1));
    replay.add(id, node.op->name(), std::move(inputs), std::move(attributes), node.outputs);
  }

  // This rank's part of a value of the source graph.
  ValueId part(Replay& replay, ValueId value) {
    if (parting_.is_in_parts(value)) return replay.mapped(value);
    auto [known, added] = parts_.try_emplace(value);
    if (added) {
      known->second = replay.builder().call("rank_part", graph_.value(value).name + "/part",
                                            {replay.mapped(value)}, {{"parts", options_.ranks}});
    }
    return known->second;
  }

  // All of it; `state`: the variable that it will be written to.
  ValueId whole(Replay& replay, ValueId value, StateId state = {}) {
    if (!parting_.is_in_parts(value)) return replay.mapped(value);
    std::vector<ValueId> inputs = {replay.mapped(value)};
    const bool begins = groups_.enter(value);
    auto [known, added] = wholes_.try_emplace({value, groups_.run()});
    if (!added) return known->second;
    const ValueId place = place_for(replay, value, state);
    if (place.valid()) inputs.push_back(place);
    if (begins && samples_.valid()) {
      inputs.push_back(
          replay.builder().call("batch_mark", graph_.value(value).name + "/begins", {samples_}));
    }
    known->second =
        exchange(replay, "rank_whole", graph_.value(value).name + "/whole", std::move(inputs),
                 {{"parts", options_.ranks},
                  {"shape", graph_.value(value).type.shape.at(1)},
                  {"into", place.valid() ? 1 : 0}});
    return known->second;
  }

  // A value in whose memory all of another one may come; invalid: there is none.
  ValueId place_for(Replay& replay, ValueId value, StateId state) {
    if (!state.valid()) {
      const auto of = of_state_.find(value);
      if (of != of_state_.end()) state = of->second;
    }
    if (!state.valid() || parting_.is_sharded(graph_.state(state))) return {};
    return replay.builder().read(state);
  }

  const Graph& graph_;
  const ShardOptions& options_;
  Parting parting_;
  std::map<ValueId, ValueId> parts_;
  WeightGroups groups_;
  std::map<std::pair<ValueId, int>, ValueId> wholes_;  // by run of a group of weights
  ValueId samples_;                      // of the values that nodes gave, the last with samples
  std::map<ValueId, StateId> of_state_;  // the variable that an updated value is of
  ValueId last_;                         // what the exchange before this one gives
};

}  // namespace

std::vector<ShardedState> find_sharded_states(const graph::ProgramSet& set,
                                              const ShardOptions& options) {
  std::vector<ShardedState> found;
  if (options.stage == 0 || options.ranks == 1) return found;
  std::set<std::string, std::less<>> whole;  // what somebody reads other than by elements
  for (const graph::Program& program : set.programs) {
    const Graph& graph = program.graph;
    const auto keep = [&](ValueId value) {
      if (graph.value(value).kind != ValueKind::kState) return;
      whole.insert(graph.state(graph.value(value).state).name);
    };
    for (const Node& node : graph.nodes) {
      const PartedOperands parted = parted_operands(graph, node, options.ranks);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!parted || !(*parted)[i]) keep(node.inputs[i]);
      }
    }
    for (ValueId output : graph.outputs) keep(output);
  }
  for (const graph::StateVariable& state : graph::states_of(set)) {
    if (!is_floating(state.type.dtype) || elements_of(state.type) < options.least) continue;
    const bool slot = state.role == graph::StateRole::kOptimizerSlot && !whole.contains(state.name);
    const bool weight =
        options.stage >= 3 && state.role == graph::StateRole::kWeight && state.trainable;
    if (slot || weight) found.push_back({state.name, state.type});
  }
  return found;
}

Graph insert_shards(const Graph& graph, const graph::OpRegistry& registry,
                    const std::vector<ShardedState>& sharded, const ShardOptions& options) {
  if (options.stage == 0 || options.ranks == 1) return graph;
  Shards shards(graph, sharded, options);
  Replay replay(graph, registry);
  shards.declare(replay);
  return replay.run([&](Replay& at, NodeId id) { shards.visit(at, id); });
}

}  // namespace plimsoll::ops
