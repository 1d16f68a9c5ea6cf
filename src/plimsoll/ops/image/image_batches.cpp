// Images that the other images of their batch have a say in.
//
//   image_histogram  (x) {value_low, value_high, bins} → (channels, bins) of int64: how many
//   numbers
//                    of a channel, of all samples, fall in each bin of the range
//   image_equalize   (x, histogram) {value_low, value_high, bins} → x with each channel's numbers
//                    spread so that all are about as frequent; one with a single bin stays as it is
//   image_mix        (x, x of the whole batch) {kind, alpha_lower, alpha_upper, site}: with an
//   image
//                    that a permutation of the batch names
//                      "blend"  w of the one and 1 − w of the other
//                      "paste"  a rectangle of the other, of 1 − w of the area
//                    w is drawn for each sample from Beta(α, α), α for the batch between the bounds
//   image_choose     (a, b) {choices, choice, site} → a where the batch's draw of one of so many
//                    choices is that one, else b

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

constexpr double kWidest = 1e30;
constexpr int64_t kMostBins = 4096;

[[noreturn]] void refuse_gradient(const std::string& layers) {
  refuse(layers + " in front of all layers that are trained",
         "one after a layer with weights, which would need its gradient",
         "Move the layer to the start of the model, or freeze the layers in front of it.");
}

ValueType image_of(const NodeTypes& node) {
  expect_floating(node, 0);
  expect_rank(node, 0, 4, 4);
  return node.inputs[0];
}

ValueType histogram_of(const NodeTypes& node) {
  for (const char* key : {"value_low", "value_high"}) read_double(node, key, -kWidest, kWidest);
  const int64_t bins = read_int(node, "bins", 1);
  if (bins > kMostBins) {
    refuse(fmt::format("at most {} bins", kMostBins), std::to_string(bins), "Choose fewer bins.");
  }
  return {DType::kInt64, Shape{image_of(node).shape[3], Dim::constant(bins)}};
}

class ImageHistogram final : public BatchReduceOp {
 public:
  ImageHistogram() : BatchReduceOp("image_histogram") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    return {histogram_of(node)};
  }

  OpTraits traits() const override { return {.sums_for_rows = true}; }
};

class ImageEqualize final : public BatchMapOp {
 public:
  ImageEqualize() : BatchMapOp("image_equalize") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_type(node, 1, histogram_of(node));
    return {image_of(node)};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }

  void gradient(GradientContext& context) const override {
    if (context.wants(0)) refuse_gradient("Equalization");
  }
};

class ImageMix final : public NamedOp {
 public:
  ImageMix() : NamedOp("image_mix") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    const ValueType image = image_of(node);
    expect_type(node, 1, image);
    read_name(node, "kind", "", {"blend", "paste"});
    for (const char* key : {"alpha_lower", "alpha_upper"}) read_double(node, key, 1e-9, kWidest);
    node.attributes.get_int("site");
    return {image};
  }

  // The second operand is the whole batch for every sample.
  std::vector<Axis> axes(const NodeTypes& node) const override {
    std::vector<Axis> axes = graph::batch_map_axis(node);
    if (!axes.empty()) axes[0].inputs[1] = AxisUse{};
    return axes;
  }

  OpTraits traits() const override { return {.random = true}; }

  void gradient(GradientContext& context) const override {
    if (context.wants(0) || context.wants(1)) refuse_gradient("layers that mix images");
  }
};

class ImageChoose final : public BatchMapOp {
 public:
  ImageChoose() : BatchMapOp("image_choose") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    const ValueType image = image_of(node);
    expect_type(node, 1, image);
    read_int(node, "choices", 1);
    read_int(node, "choice", 0);
    node.attributes.get_int("site");
    return {image};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}, {1, 0}}; }
  OpTraits traits() const override { return {.random = true, .cheap = true}; }

  void gradient(GradientContext& context) const override {
    if (context.wants(0) || context.wants(1)) refuse_gradient("RandAugment");
  }
};

}  // namespace

void register_image_batches(OpRegistry& registry) {
  add_op<ImageChoose>(registry);
  add_op<ImageEqualize>(registry);
  add_op<ImageHistogram>(registry);
  add_op<ImageMix>(registry);
}

}  // namespace plimsoll::ops
