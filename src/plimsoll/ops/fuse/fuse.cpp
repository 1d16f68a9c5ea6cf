#include "ops/fuse/fuse.h"

#include <algorithm>

#include "ops/activation_kinds.h"
#include "ops/fuse/classifier.h"
#include "ops/fuse/pooled.h"
#include "ops/fuse/rewrite.h"
#include "ops/training/optimizer_op.h"

namespace plimsoll::ops {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

class Matcher {
 public:
  Matcher(const Graph& graph, const Offers& offers, int64_t batch)
      : graph_(graph),
        offers_(offers),
        batch_(batch),
        users_(find_users(graph)),
        group_(graph.nodes.size(), kNone) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      match_pool(NodeId(i));
      match_loss(NodeId(i));
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (group_of(NodeId(i)) == kNone) match(NodeId(i));
    }
  }

  // −1: the node is no member of a group.
  static constexpr int kNone = -1;
  int group_of(NodeId node) const { return group_[node.index()]; }
  const Group& group(int index) const { return groups_[static_cast<size_t>(index)]; }

 private:
  void match_pool(NodeId id) {
    if (!offers_.conv2d_max_pool || graph_.node(id).op->name() != "max_pool2d") return;
    for (Group& group : match_pooled(graph_, users_, id)) take(std::move(group));
  }

  void match_loss(NodeId id) {
    if (!offers_.dense_crossentropy || graph_.node(id).op->name() != "sparse_crossentropy") return;
    for (Group& group : match_classifier(graph_, users_, id)) take(std::move(group));
  }

  void match(NodeId id) {
    const std::string_view op = graph_.node(id).op->name();
    if (op == "conv2d" || op == "conv3d")
      match_forward(id, offers_.conv2d_bias, offers_.conv2d_relu);
    if (op == "dense") match_forward(id, offers_.dense_bias, offers_.dense_relu);
    if (op == "dense_grad_kernel" && match_update(id)) return;
    if (op == "conv2d_grad_kernel" || op == "conv3d_grad_kernel" || op == "dense_grad_kernel") {
      match_kernel_gradient(id);
    }
  }

  // The only reader of the value, where that reads it once as input 0 and is of this operator.
  NodeId only_reader(ValueId value, std::string_view op) const {
    const std::vector<NodeId>& users = users_[value.index()];
    if (users.size() != 1) return {};
    const auto& outputs = graph_.outputs;
    if (std::find(outputs.begin(), outputs.end(), value) != outputs.end()) return {};
    const Node& user = graph_.node(users[0]);
    return user.op->name() == op && user.inputs[0] == value ? users[0] : NodeId();
  }

  // A convolution or dense, then bias_add, then a plain relu.
  void match_forward(NodeId id, bool fuse_bias, bool fuse_relu) {
    const Node& node = graph_.node(id);
    if (node.attributes.get_string("activation", "linear") != "linear") return;
    Group group{id, node.op->name(), node.inputs, node.attributes, node.outputs, {id}};
    std::vector<NodeId>& members = group.members;
    if (fuse_bias && !node.attributes.get_bool("use_bias", false)) {
      if (const NodeId bias = only_reader(group.outputs[0], "bias_add"); bias.valid()) {
        members.push_back(bias);
        group.inputs.push_back(graph_.node(bias).inputs[1]);
        group.attributes.set("use_bias", true);
        group.outputs = graph_.node(bias).outputs;
      }
    }
    if (fuse_relu) {
      const NodeId relu = only_reader(group.outputs[0], "activation");
      if (relu.valid() &&
          read_activation(graph_.node(relu).attributes).kind == ActivationKind::kRelu) {
        members.push_back(relu);
        group.attributes.set("activation", "relu");
        group.outputs = graph_.node(relu).outputs;
      }
    }
    if (members.size() < 2) return;
    group.place = members.back();
    take(std::move(group));
  }

  // The gradients of kernel and bias read the same dy.
  void match_kernel_gradient(NodeId id) {
    const Node& node = graph_.node(id);
    if (!offers_.kernel_gradient_bias || node.attributes.get_bool("use_bias", false)) return;
    const ValueId dy = node.inputs[1];
    for (NodeId user : users_[dy.index()]) {
      const Node& bias = graph_.node(user);
      if (bias.op->name() != "bias_grad" || group_of(user) != kNone) continue;
      const NodeId place = std::min(id, user);
      const graph::Value& x = graph_.value(node.inputs[0]);
      if (x.producer.valid() && x.producer >= place) continue;
      Group group{place, node.op->name(), node.inputs, node.attributes, node.outputs, {id, user}};
      group.attributes.set("use_bias", true);
      group.outputs.push_back(bias.outputs[0]);
      take(std::move(group));
      return;
    }
  }

  // The gradient of a large weight and the update that alone reads it.
  bool match_update(NodeId id) {
    const Node& node = graph_.node(id);
    const graph::ValueType& weight = graph_.value(node.outputs[0]).type;
    const Bytes bytes = tensor_bytes(weight.dtype, weight.shape, batch_);
    if (offers_.dense_update == Bytes() || bytes < offers_.dense_update) return false;
    if (node.attributes.get_bool("use_bias", false)) return false;
    if (weight.shape[0].count < offers_.dense_update_rows) return false;
    Bytes factors;
    for (ValueId input : node.inputs) {
      const graph::ValueType& type = graph_.value(input).type;
      if (!type.shape.has_batch()) return false;
      // Beside factors of bfloat16 the call has them in float32.
      const int64_t copies = type.dtype == DType::kBFloat16 ? 3 : 1;
      factors += tensor_bytes(type.dtype, type.shape, batch_) * copies;
    }
    const std::vector<NodeId>& users = users_[node.outputs[0].index()];
    const auto& outputs = graph_.outputs;
    if (2 * factors.count() > bytes.count() || users.size() != 1 ||
        std::find(outputs.begin(), outputs.end(), node.outputs[0]) != outputs.end()) {
      return false;
    }
    const Node& update = graph_.node(users[0]);
    const auto* optimizer = dynamic_cast<const OptimizerOp*>(update.op);
    if (optimizer == nullptr || update.inputs[1] != node.outputs[0] ||
        std::ranges::count(update.inputs, node.outputs[0]) != 1) {
      return false;
    }
    Group group{users[0],          "dense_grad_update", node.inputs,
                update.attributes, update.outputs,      {id}};
    group.members.push_back(users[0]);
    group.attributes.set("optimizer", std::string(update.op->name()));
    group.inputs.push_back(update.inputs[0]);
    group.inputs.insert(group.inputs.end(), update.inputs.begin() + 2, update.inputs.end());
    take(std::move(group));
    return true;
  }

  void take(Group group) {
    for (NodeId member : group.members) group_[member.index()] = static_cast<int>(groups_.size());
    groups_.push_back(std::move(group));
  }

  const Graph& graph_;
  const Offers& offers_;
  int64_t batch_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<int> group_;  // per node
  std::vector<Group> groups_;
};

}  // namespace

Graph fuse(const Graph& graph, const graph::OpRegistry& registry, const Offers& offers,
           int64_t batch) {
  const Matcher matcher(graph, offers, batch);
  return Replay(graph, registry).run([&](Replay& replay, NodeId id) {
    const int index = matcher.group_of(id);
    if (index == Matcher::kNone) {
      replay.copy(id, replay.mapped(graph.node(id).inputs));
      return;
    }
    const Group& group = matcher.group(index);
    if (group.place != id) return;
    replay.add(id, group.op, replay.mapped(group.inputs), group.attributes, group.outputs);
    // Its winners say more than those of the pooling did.
    if (group.op == "conv2d_pool") {
      replay.builder().mutable_graph().value(replay.mapped(group.outputs[1])).name += "/passing";
    }
  });
}

}  // namespace plimsoll::ops
