// Keras 3's optimizers that look at a weight as a whole, t = iterations + 1:
//
//   lamb       m', v' as Adam's;  u = m' / (1 − beta_1^t) / (sqrt(v' / (1 − beta_2^t)) + epsilon)
//              w' = w − lr u ‖w‖ / ‖u‖   (lr u where either is 0)
//   adafactor  β = 1 − t^beta_2_decay;  s = g² + epsilon_1
//              r' = β r + (1 − β) mean of s over the last dimension;  c' the same over the one
//              before it;  v' = r' c' / mean(r')   (a vector: v' = β v + (1 − β) s)
//              u = g / sqrt(v');  w' = w − max(epsilon_2, rms(w)) min(lr, 1 / sqrt(t)) û
//              û = u / max(1, rms(u) / clip_threshold)
//
// (w, g, slots…, learning rate, iterations) → (w', slots'…), each output in the place of its input;
// lamb's slots are m and v, adafactor's r, c and v (r and c of a vector are scalars that stay). A
// last operand beyond these stands for g² of a table's rows. A weight_decay first takes
// w · weight_decay · lr off the weight. Nothing can be cut: norms come before the first row
// changes.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class WholeOptimizer : public NamedOp {
 public:
  WholeOptimizer(std::string_view name, int slots) : NamedOp(name), slots_(slots) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const auto count = static_cast<size_t>(slots_) + 4;
    expect_operands(node, count, count + 1);
    expect_floating(node, 0);
    const ValueType& weight = node.inputs[0];
    expect_type(node, 1, weight);
    std::vector<ValueType> outputs = {weight};
    for (int i = 0; i < slots_; ++i) {
      outputs.push_back({weight.dtype, slot_shape(weight.shape, i)});
      expect_type(node, static_cast<size_t>(i) + 2, outputs.back());
    }
    expect_type(node, count - 2, {weight.dtype, Shape()});
    expect_type(node, count - 1, {DType::kInt64, Shape()});
    if (node.inputs.size() > count) expect_type(node, count, weight);
    if (node.attributes.has("weight_decay")) read_double(node, "weight_decay", 0.0, kNoBound);
    check_attributes(node);
    return outputs;
  }

  std::vector<Alias> aliases(const NodeTypes&) const override {
    std::vector<Alias> aliases = {{.input = 0, .output = 0}};
    for (int i = 0; i < slots_; ++i) aliases.push_back({.input = 2 + i, .output = 1 + i});
    return aliases;
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return 24.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }

 protected:
  static constexpr double kNoBound = 1e30;
  virtual Shape slot_shape(const Shape& weight, int slot) const = 0;
  virtual void check_attributes(const NodeTypes& node) const = 0;

 private:
  int slots_;
};

class Lamb final : public WholeOptimizer {
 public:
  Lamb() : WholeOptimizer("lamb", 2) {}

 protected:
  Shape slot_shape(const Shape& weight, int) const override { return weight; }
  void check_attributes(const NodeTypes& node) const override {
    read_double(node, "beta_1", 0.0, 1.0);
    read_double(node, "beta_2", 0.0, 1.0);
    read_double(node, "epsilon", 0.0, kNoBound);
  }
};

class Adafactor final : public WholeOptimizer {
 public:
  Adafactor() : WholeOptimizer("adafactor", 3) {}

 protected:
  Shape slot_shape(const Shape& weight, int slot) const override {
    if (slot == 2) return weight;
    if (weight.rank() < 2) return Shape();
    std::vector<Dim> dims;
    const int without = weight.rank() - 1 - slot;  // r has not the last one, c not that before it
    for (int d = 0; d < weight.rank(); ++d) {
      if (d != without) dims.push_back(weight[d]);
    }
    return Shape(std::move(dims));
  }
  void check_attributes(const NodeTypes& node) const override {
    read_double(node, "beta_2_decay", -kNoBound, kNoBound);
    read_double(node, "epsilon_1", 0.0, kNoBound);
    read_double(node, "epsilon_2", 0.0, kNoBound);
    read_double(node, "clip_threshold", 0.0, kNoBound);
  }
};

}  // namespace

void register_whole_optimizers(OpRegistry& registry) {
  add_op<Lamb>(registry);
  add_op<Adafactor>(registry);
}

}  // namespace plimsoll::ops
