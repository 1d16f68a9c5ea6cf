#include "ops/fuse/pooled.h"

#include <algorithm>

#include "ops/activation_kinds.h"
#include "ops/fuse/match.h"
#include "ops/image/pool.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

class PooledMatcher : Matcher {
 public:
  PooledMatcher(const Graph& graph, const std::vector<std::vector<NodeId>>& users, NodeId pool)
      : Matcher(graph, users), pool_(pool) {}

  std::vector<Group> match() {
    if (!windows_tile() || !find_forward() || !find_backward() || !only_read_by_members()) {
      return {};
    }
    std::vector<Group> groups = {forward()};
    if (kernel_grad_.valid()) groups.push_back(kernel_gradient());
    if (input_grad_.valid()) groups.push_back(input_gradient());
    if (groups.size() > 1) {
      groups[1].members.push_back(pool_grad_);
      if (relu_grad_.valid()) groups[1].members.push_back(relu_grad_);
    }
    return groups;
  }

 private:
  bool windows_tile() const {
    const Attributes& attributes = node(pool_).attributes;
    const std::vector<int64_t>& size = attributes.get_ints("pool_size");
    const std::vector<int64_t>& padding = attributes.get_ints("padding");
    constexpr int64_t kMostTaps = 255;
    return attributes.get_ints("strides") == size && size[0] * size[1] <= kMostTaps &&
           std::ranges::all_of(padding, [](int64_t p) { return p == 0; }) &&
           graph_.value(node(pool_).outputs[1]).type.dtype == DType::kUInt8;
  }

  bool find_forward() {
    ValueId value = pooled_ = node(pool_).inputs[0];
    relu_ = producer(value, "activation");
    if (relu_.valid()) {
      if (read_activation(node(relu_).attributes).kind != ActivationKind::kRelu) return false;
      value = node(relu_).inputs[0];
    }
    bias_ = producer(value, "bias_add");
    if (bias_.valid()) value = node(bias_).inputs[0];
    conv_ = producer(value, "conv2d");
    if (!conv_.valid() || node(conv_).attributes.get_int("groups") != 1) return false;
    // The kernel of a sequence's convolution has another shape.
    if (node(conv_).attributes.has("kernel_shape")) return false;
    if (node(conv_).attributes.get_ints("dilation_rate") != std::vector<int64_t>{1, 1}) {
      return false;
    }
    const bool has_relu = node(conv_).attributes.get_string("activation", "linear") == "relu";
    const bool has_bias = node(conv_).attributes.get_bool("use_bias", false);
    // A bias or a ReLU after a ReLU or a bias of the convolution's own is another function.
    if (has_relu && (bias_.valid() || relu_.valid())) return false;
    if (has_bias && bias_.valid()) return false;
    with_relu_ = has_relu || relu_.valid();
    return true;
  }

  // True where there is no backward pass, or one that is made of these nodes alone.
  bool find_backward() {
    const std::vector<NodeId>& readers = users_[node(pool_).outputs[1].index()];
    if (readers.empty()) return true;
    pool_grad_ = readers[0];
    if (readers.size() > 1 || node(pool_grad_).op->name() != "max_pool2d_grad") return false;
    ValueId gradient = node(pool_grad_).outputs[0];
    if (with_relu_) {
      const std::vector<NodeId>& more = users_[gradient.index()];
      if (more.size() != 1 || node(more[0]).op->name() != "activation_grad") return false;
      relu_grad_ = more[0];
      const Node& slope = node(relu_grad_);
      if (slope.inputs != std::vector<ValueId>{gradient, pooled_} ||
          read_activation(slope.attributes).kind != ActivationKind::kRelu) {
        return false;
      }
      gradient = slope.outputs[0];
    }
    conv_gradient_ = gradient;
    return std::ranges::all_of(users_[gradient.index()],
                               [&](NodeId reader) { return take_gradient(reader); }) &&
           (kernel_grad_.valid() || (input_grad_.valid() && !bias_grad_.valid()));
  }

  bool take_gradient(NodeId reader) {
    const Node& n = node(reader);
    const std::string_view op = n.op->name();
    if (op == "conv2d_grad_kernel" && n.inputs[0] == node(conv_).inputs[0]) {
      return take(kernel_grad_, reader);
    }
    if (op == "conv2d_grad_input" && n.inputs[0] == conv_gradient_ &&
        n.inputs[1] == node(conv_).inputs[1]) {
      return take(input_grad_, reader);
    }
    return op == "bias_grad" && take(bias_grad_, reader);
  }

  // Values that are gone have no readers beside the members, and are no outputs.
  bool only_read_by_members() const {
    const std::vector<NodeId> members = {
        conv_, bias_, relu_, pool_, pool_grad_, relu_grad_, bias_grad_, kernel_grad_, input_grad_};
    return only_read_by(members, {conv_, bias_, relu_, pool_grad_, relu_grad_}) &&
           !is_output(node(pool_).outputs[1]);
  }

  Attributes attributes_of(NodeId base) const {
    Attributes attributes = node(base).attributes;
    attributes.set("pool_size", node(pool_).attributes.get_ints("pool_size"));
    attributes.set("activation", with_relu_ ? "relu" : "linear");
    return attributes;
  }

  Group forward() const {
    Group group{
        pool_,         "conv2d_pool", node(conv_).inputs, attributes_of(conv_), node(pool_).outputs,
        {conv_, pool_}};
    if (bias_.valid()) {
      group.inputs.push_back(node(bias_).inputs[1]);
      group.attributes.set("use_bias", true);
      group.members.push_back(bias_);
    }
    if (relu_.valid()) group.members.push_back(relu_);
    return group;
  }

  Group kernel_gradient() const {
    const std::vector<ValueId>& from = node(pool_grad_).inputs;
    Group group{kernel_grad_,
                "conv2d_pool_grad_kernel",
                {node(conv_).inputs[0], from[0], from[1]},
                attributes_of(kernel_grad_),
                node(kernel_grad_).outputs,
                {kernel_grad_}};
    if (bias_grad_.valid()) {
      group.place = std::min(kernel_grad_, bias_grad_);
      group.attributes.set("use_bias", true);
      group.outputs.push_back(node(bias_grad_).outputs[0]);
      group.members.push_back(bias_grad_);
    }
    return group;
  }

  Group input_gradient() const {
    const std::vector<ValueId>& from = node(pool_grad_).inputs;
    return {input_grad_,
            "conv2d_pool_grad_input",
            {from[0], from[1], node(conv_).inputs[1]},
            attributes_of(input_grad_),
            node(input_grad_).outputs,
            {input_grad_}};
  }

  NodeId pool_;
  ValueId pooled_;
  ValueId conv_gradient_;
  NodeId conv_, bias_, relu_;
  NodeId pool_grad_, relu_grad_, bias_grad_, kernel_grad_, input_grad_;
  bool with_relu_ = false;
};

}  // namespace

std::vector<Group> match_pooled(const Graph& graph, const std::vector<std::vector<NodeId>>& users,
                                NodeId pool) {
  return PooledMatcher(graph, users, pool).match();
}

}  // namespace plimsoll::ops
