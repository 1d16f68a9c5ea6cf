#include "unit/graph/test_ops.h"

#include "base/error.h"
#include "graph/autodiff.h"
#include "graph/core_ops.h"

namespace plimsoll::graph::testing {
namespace {

[[noreturn]] void refuse(const NodeTypes& node) {
  std::string text;
  for (const ValueType& type : node.inputs) text += " " + to_string(type.shape);
  throw Error(ErrorKind::kModel, "expected other operands, received" + text + ".");
}

class Product final : public Op {
 public:
  std::string_view name() const override { return "product"; }
  std::vector<ValueType> infer(const NodeTypes& node) const override {
    if (node.inputs.size() != 2 || node.inputs[0] != node.inputs[1]) refuse(node);
    return {node.inputs[0]};
  }
  std::vector<Axis> axes(const NodeTypes& node) const override { return batch_map_axis(node); }
  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.elementwise = true}; }
  void gradient(GradientContext& context) const override {
    for (int i = 0; i < 2; ++i) {
      if (!context.wants(i)) continue;
      context.set_gradient(
          i, context.builder().call("product", context.name(i == 0 ? "a_grad" : "b_grad"),
                                    {context.output_gradient(0), context.input(1 - i)}));
    }
  }
};

class Matmul final : public Op {
 public:
  std::string_view name() const override { return "matmul"; }
  std::vector<ValueType> infer(const NodeTypes& node) const override {
    if (node.inputs.size() != 2 || node.inputs[0].shape.rank() != 2 ||
        node.inputs[1].shape.rank() != 2 || node.inputs[0].shape[1] != node.inputs[1].shape[0]) {
      refuse(node);
    }
    return {{DType::kFloat32, Shape({node.inputs[0].shape[0], node.inputs[1].shape[1]})}};
  }
  std::vector<Axis> axes(const NodeTypes& node) const override { return batch_map_axis(node); }
  void gradient(GradientContext& context) const override {
    const ValueId dy = context.output_gradient(0);
    if (context.wants(0)) {
      context.set_gradient(0, context.builder().call("matmul_grad_x", context.name("x_grad"),
                                                     {dy, context.input(1)}));
    }
    if (context.wants(1)) {
      context.set_gradient(1, context.builder().call("matmul_grad_w", context.name("w_grad"),
                                                     {context.input(0), dy}));
    }
  }
};

class MatmulGradX final : public Op {
 public:
  std::string_view name() const override { return "matmul_grad_x"; }
  std::vector<ValueType> infer(const NodeTypes& node) const override {
    return {{DType::kFloat32, Shape({node.inputs[0].shape[0], node.inputs[1].shape[0]})}};
  }
  std::vector<Axis> axes(const NodeTypes& node) const override { return batch_map_axis(node); }
};

class MatmulGradW final : public Op {
 public:
  std::string_view name() const override { return "matmul_grad_w"; }
  std::vector<ValueType> infer(const NodeTypes& node) const override {
    return {{DType::kFloat32, Shape({node.inputs[0].shape[1], node.inputs[1].shape[1]})}};
  }
  std::vector<Axis> axes(const NodeTypes& node) const override { return batch_reduce_axis(node); }
};

class Total final : public Op {
 public:
  std::string_view name() const override { return "total"; }
  std::vector<ValueType> infer(const NodeTypes& node) const override {
    return {{node.inputs[0].dtype, Shape()}};
  }
  std::vector<Axis> axes(const NodeTypes& node) const override { return batch_reduce_axis(node); }
  void gradient(GradientContext& context) const override {
    std::vector<int64_t> dims;
    const Shape& shape = context.input_type(0).shape;
    for (int i = 1; i < shape.rank(); ++i) dims.push_back(shape[i].count);
    context.set_gradient(
        0, context.builder().call("spread", context.name("grad"), {context.output_gradient(0)},
                                  {{"shape", dims}}));
  }
};

class Spread final : public Op {
 public:
  std::string_view name() const override { return "spread"; }
  std::vector<ValueType> infer(const NodeTypes& node) const override {
    return {{node.inputs[0].dtype, batch_shape(node.attributes.get_ints("shape"))}};
  }
  std::vector<Axis> axes(const NodeTypes& node) const override { return batch_map_axis(node); }
};

class Halves final : public Op {
 public:
  std::string_view name() const override { return "halves"; }
  std::vector<ValueType> infer(const NodeTypes& node) const override {
    ValueType half = node.inputs[0];
    half.shape[1].count /= 2;
    return {half, half};
  }
  std::vector<Axis> axes(const NodeTypes& node) const override { return batch_map_axis(node); }
  void gradient(GradientContext& context) const override {
    std::vector<ValueId> parts;
    for (int i = 0; i < 2; ++i) {
      ValueId part = context.output_gradient(i);
      if (!part.valid()) {
        part = context.builder().call("product", context.name("none"),
                                      {context.output(i), context.output(i)});
      }
      parts.push_back(part);
    }
    context.set_gradient(0, context.builder().call("join", context.name("grad"), parts));
  }
};

class Join final : public Op {
 public:
  std::string_view name() const override { return "join"; }
  std::vector<ValueType> infer(const NodeTypes& node) const override {
    ValueType whole = node.inputs[0];
    whole.shape[1].count *= 2;
    return {whole};
  }
  std::vector<Axis> axes(const NodeTypes& node) const override { return batch_map_axis(node); }
};

class Round final : public Op {
 public:
  std::string_view name() const override { return "round"; }
  std::vector<ValueType> infer(const NodeTypes& node) const override { return {node.inputs[0]}; }
  std::vector<Axis> axes(const NodeTypes& node) const override { return batch_map_axis(node); }
};

}  // namespace

const OpRegistry& test_registry() {
  static const OpRegistry* const registry = [] {
    auto* result = new OpRegistry();
    register_core_ops(*result);
    result->add(std::make_unique<Product>());
    result->add(std::make_unique<Matmul>());
    result->add(std::make_unique<MatmulGradX>());
    result->add(std::make_unique<MatmulGradW>());
    result->add(std::make_unique<Total>());
    result->add(std::make_unique<Spread>());
    result->add(std::make_unique<Halves>());
    result->add(std::make_unique<Join>());
    result->add(std::make_unique<Round>());
    return result;
  }();
  return *registry;
}

}  // namespace plimsoll::graph::testing
