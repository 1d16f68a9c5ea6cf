#include "ops/fuse/classifier.h"

#include <algorithm>

#include "ops/fuse/match.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

// Fewer logits than this are faster kept than computed again.
constexpr Bytes kLeastLogits = 16_MiB;

class ClassifierMatcher : Matcher {
 public:
  ClassifierMatcher(const Graph& graph, const std::vector<std::vector<NodeId>>& users, NodeId loss)
      : Matcher(graph, users), loss_(loss) {}

  std::vector<Group> match() {
    if (!find_forward() || !find_backward() || !only_read_by_members()) return {};
    std::vector<Group> groups = {forward()};
    if (slope_.valid()) groups.push_back(backward());
    return groups;
  }

 private:
  bool find_forward() {
    log_sum_ = producer(node(loss_).inputs[0], "log_sum_exp");
    pick_ = producer(node(loss_).inputs[1], "pick_class");
    if (!log_sum_.valid() || !pick_.valid()) return false;
    logits_ = node(log_sum_).inputs[0];
    if (node(pick_).inputs[0] != logits_) return false;
    const graph::ValueType& type = graph_.value(logits_).type;
    if (!type.shape.has_batch() || row_bytes(type.dtype, type.shape) < kLeastLogits) return false;
    ValueId value = logits_;
    bias_ = producer(value, "bias_add");
    if (bias_.valid()) value = node(bias_).inputs[0];
    dense_ = producer(value, "dense");
    if (!dense_.valid()) return false;
    const Attributes& attributes = node(dense_).attributes;
    if (attributes.get_string("activation", "linear") != "linear") return false;
    const bool own_bias = attributes.get_bool("use_bias", false);
    if (own_bias && bias_.valid()) return false;
    if (own_bias) bias_value_ = node(dense_).inputs[2];
    if (bias_.valid()) bias_value_ = node(bias_).inputs[1];
    return true;
  }

  // True where there is no backward pass, or the whole one.
  bool find_backward() {
    for (NodeId reader : users_[logits_.index()]) {
      if (reader == log_sum_ || reader == pick_) continue;
      if (node(reader).op->name() != "softmax_crossentropy_grad" || slope_.valid()) return false;
      slope_ = reader;
    }
    if (!slope_.valid()) return true;
    const Node& slope = node(slope_);
    if (slope.inputs[0] != logits_ || slope.inputs[1] != node(log_sum_).outputs[0] ||
        slope.inputs[2] != node(pick_).inputs[1]) {
      return false;
    }
    dlogits_ = slope.outputs[0];
    return std::ranges::all_of(users_[dlogits_.index()],
                               [&](NodeId reader) { return take_gradient(reader); }) &&
           input_grad_.valid() && kernel_grad_.valid() && bias_grad_.valid() == bias_value_.valid();
  }

  bool take_gradient(NodeId reader) {
    const Node& n = node(reader);
    const std::string_view op = n.op->name();
    const Node& dense = node(dense_);
    if (op == "dense_grad_kernel" && n.inputs[0] == dense.inputs[0] && n.outputs.size() == 1) {
      return take(kernel_grad_, reader);
    }
    if (op == "dense_grad_input" && n.inputs[0] == dlogits_ && n.inputs[1] == dense.inputs[1]) {
      return take(input_grad_, reader);
    }
    return op == "bias_grad" && take(bias_grad_, reader);
  }

  bool only_read_by_members() const {
    const std::vector<NodeId> members = {dense_, bias_,       log_sum_,     pick_,     loss_,
                                         slope_, input_grad_, kernel_grad_, bias_grad_};
    return only_read_by(members, {dense_, bias_, log_sum_, pick_, slope_});
  }

  std::vector<ValueId> operands() const {
    std::vector<ValueId> values = {node(dense_).inputs[0], node(dense_).inputs[1]};
    if (bias_value_.valid()) values.push_back(bias_value_);
    values.push_back(node(pick_).inputs[1]);
    return values;
  }

  Group forward() const {
    Group group{loss_,
                "dense_crossentropy",
                operands(),
                {{"use_bias", bias_value_.valid()}},
                {node(loss_).outputs[0], node(log_sum_).outputs[0]},
                {dense_, log_sum_, pick_, loss_}};
    if (bias_.valid()) group.members.push_back(bias_);
    return group;
  }

  Group backward() const {
    Group group{slope_,
                "dense_crossentropy_grad",
                operands(),
                {{"use_bias", bias_value_.valid()}},
                {node(input_grad_).outputs[0], node(kernel_grad_).outputs[0]},
                {slope_, input_grad_, kernel_grad_}};
    group.inputs.push_back(node(log_sum_).outputs[0]);
    group.inputs.push_back(node(slope_).inputs[3]);
    if (bias_grad_.valid()) {
      group.outputs.push_back(node(bias_grad_).outputs[0]);
      group.members.push_back(bias_grad_);
    }
    return group;
  }

  NodeId loss_;
  ValueId logits_, dlogits_, bias_value_;
  NodeId dense_, bias_, log_sum_, pick_;
  NodeId slope_, input_grad_, kernel_grad_, bias_grad_;
};

}  // namespace

std::vector<Group> match_classifier(const Graph& graph,
                                    const std::vector<std::vector<NodeId>>& users, NodeId loss) {
  return ClassifierMatcher(graph, users, loss).match();
}

}  // namespace plimsoll::ops
