// Images whose numbers change where they are. What is drawn (image_draws.h) is drawn for each
// sample, by {site}, a number that stands for the call site's stable name.
//
//   image_color     {kind, lower, upper, second_lower, second_upper, value_low, value_high}
//                   each pixel by itself; u is drawn between lower and upper:
//                     "brightness"  x + u (high − low)
//                     "degenerate"  between x and its gray by u, clipped to [low, high]
//                     "grayscale"   gray where a draw in [0, 1) is below upper
//                     "hue"         hue moved by ± u / 2 of the circle
//                     "invert"      high − x where a draw in [0, 1) is below u
//                     "posterize"   the ⌊u⌋ leading bits of eight, u below upper
//                     "saturation"  saturation times u / (1 − u + 1e-7)
//                     "solarize"    x + u, inverted from a threshold between the second bounds on
//                   gray, hue and saturation are those of TensorFlow, of three channels
//   image_contrast  {lower, upper}   u times the distance from the mean of each channel; its own
//                   gradient
//   auto_contrast   {value_low, value_high}   each channel of a sample stretched over that range
//   equalize_tiles  {value_low, value_high, clip_limit, tiles}   each channel's numbers spread,
//                   tile by tile, to be about as frequent; what is more frequent than clip_limit
//                   times the mean counts no more (0: it does)
//   image_filter    {kind, lower, upper, …}   what neighbours have to say, zeros beyond the edge:
//                     "sharpness"   from a mean of 3 × 3 away by 2 u, clipped
//                     "blur"        a Gaussian of {size}, its two deviations drawn once a batch
//                                   between the second bounds, where a draw is below u; clipped
//   image_erase     {lower, upper, scale_lower, scale_upper, value_low, value_high} a rectangle of
//                   noise, or of {fill} where {filled}, where a draw is below u
//   clip_range      {value_low, value_high}   and clip_range_grad (dy, x)

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

constexpr double kWidest = 1e30;

void read_values(const NodeTypes& node) {
  for (const char* key : {"value_low", "value_high"}) read_double(node, key, -kWidest, kWidest);
}

void read_draws(const NodeTypes& node) {
  for (const char* key : {"lower", "upper"}) read_double(node, key, -kWidest, kWidest);
  node.attributes.get_int("site");
}

void read_second_draws(const NodeTypes& node) {
  for (const char* key : {"second_lower", "second_upper"}) {
    read_double(node, key, -kWidest, kWidest);
  }
}

[[noreturn]] void refuse_gradient(const std::string& layers) {
  refuse(layers + " in front of all layers that are trained",
         "one after a layer with weights, which would need its gradient",
         "Move the layer to the start of the model, or freeze the layers in front of it.");
}

class ImageOp : public BatchMapOp {
 public:
  using BatchMapOp::BatchMapOp;

  OpTraits traits() const override { return {.random = true, .bf16 = graph::kFollowsFirst}; }

  double flops_per_sample(const NodeTypes& node) const override {
    return 12.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }

 protected:
  static ValueType image_of(const NodeTypes& node) {
    expect_alike_real(node, 1);
    expect_rank(node, 0, 4, 4);
    return node.inputs[0];
  }
};

class ImageColor final : public ImageOp {
 public:
  ImageColor() : ImageOp("image_color") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const ValueType image = image_of(node);
    const std::string kind = read_name(node, "kind", "",
                                       {"brightness", "degenerate", "grayscale", "hue", "invert",
                                        "posterize", "saturation", "solarize"});
    read_draws(node);
    read_second_draws(node);
    read_values(node);
    const bool colored =
        kind != "brightness" && kind != "invert" && kind != "posterize" && kind != "solarize";
    if (colored && image.shape[3] != Dim::constant(3)) {
      refuse("three channels: red, green and blue", to_string(image.shape),
             "Give images with three channels.");
    }
    return {image};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const std::string& kind = context.attributes().get_string("kind");
    const ValueId dy = context.output_gradient(0);
    if (kind == "brightness") {
      context.set_gradient(0, dy);
    } else if (kind == "invert") {
      Attributes attributes = context.attributes();
      attributes.set("value_high", 0.0);  // 0 − dy
      context.set_gradient(
          0, context.builder().call("image_color", context.name("grad"), {dy}, attributes));
    } else {
      refuse_gradient("random changes of color");
    }
  }
};

class ImageContrast final : public ImageOp {
 public:
  ImageContrast() : ImageOp("image_contrast") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    read_draws(node);
    return {image_of(node)};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(
        0, context.builder().call("image_contrast", context.name("grad"),
                                  {context.output_gradient(0)}, context.attributes()));
  }
};

class AutoContrast final : public ImageOp {
 public:
  AutoContrast() : ImageOp("auto_contrast") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    read_values(node);
    return {image_of(node)};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.bf16 = graph::kFollowsFirst}; }

  void gradient(GradientContext& context) const override {
    if (context.wants(0)) refuse_gradient("AutoContrast");
  }
};

class EqualizeTiles final : public ImageOp {
 public:
  EqualizeTiles() : ImageOp("equalize_tiles") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    read_values(node);
    read_double(node, "clip_limit", -kWidest, kWidest);
    const ValueType image = image_of(node);
    const std::vector<int64_t> tiles = read_ints(node, "tiles", 2, 1);
    for (size_t k = 0; k < tiles.size(); ++k) {
      const int64_t size = image.shape[1 + static_cast<int>(k)].count;
      const int64_t beyond = (size + tiles[k] - 1) / tiles[k] * tiles[k] - size;
      if (beyond <= size) continue;
      refuse(fmt::format("at most {} tiles side by side in {} pixels", 2 * size, size),
             std::to_string(tiles[k]), "Take fewer tiles, or resize the images before it.");
    }
    return {image};
  }

  OpTraits traits() const override { return {.bf16 = graph::kFollowsFirst}; }

  // Each pixel is counted four times.
  double flops_per_sample(const NodeTypes& node) const override {
    return 4 * ImageOp::flops_per_sample(node);
  }

  void gradient(GradientContext& context) const override {
    if (context.wants(0)) refuse_gradient("ContrastLimitedAdaptiveHistogramEqualization");
  }
};

class ImageFilter final : public ImageOp {
 public:
  ImageFilter() : ImageOp("image_filter") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    read_name(node, "kind", "", {"blur", "sharpness"});
    read_draws(node);
    read_second_draws(node);
    read_values(node);
    for (const int64_t size : read_ints(node, "size", 2, 1)) {
      if (size % 2 == 0 || size > 63) {
        refuse("odd sizes of at most 63", std::to_string(size), "Choose another kernel_size.");
      }
    }
    return {image_of(node)};
  }

  void gradient(GradientContext& context) const override {
    if (context.wants(0)) refuse_gradient("random filters");
  }

  double flops_per_sample(const NodeTypes& node) const override {
    const std::vector<int64_t> size = read_ints(node, "size", 2, 1);
    return 2.0 * static_cast<double>(size[0] * size[1]) *
           static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

class ImageErase final : public ImageOp {
 public:
  ImageErase() : ImageOp("image_erase") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    read_draws(node);
    read_values(node);
    read_double(node, "scale_lower", 0.0, 1.0);
    read_double(node, "scale_upper", 0.0, 1.0);
    const ValueType image = image_of(node);
    if (node.attributes.get_bool("filled")) {
      for (const char* key : {"fill_0", "fill_1", "fill_2"}) {
        read_double(node, key, -kWidest, kWidest);
      }
    }
    return {image};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }

  void gradient(GradientContext& context) const override {
    if (context.wants(0)) refuse_gradient("RandomErasing");
  }
};

class ClipRange final : public BatchMapOp {
 public:
  ClipRange() : BatchMapOp("clip_range") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    read_values(node);
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.cheap = true, .bf16 = graph::kFollowsFirst}; }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0, context.builder().call("clip_range_grad", context.name("grad"),
                                                   {context.output_gradient(0), context.input(0)},
                                                   context.attributes()));
  }
};

// (dy, x): dy where x lies in the range, the bounds included.
class ClipRangeGrad final : public BatchMapOp {
 public:
  ClipRangeGrad() : BatchMapOp("clip_range_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 2);
    read_values(node);
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}, {1, 0}}; }
  OpTraits traits() const override { return {.cheap = true, .bf16 = graph::kFollowsAll}; }
};

}  // namespace

void register_image_colors(OpRegistry& registry) {
  add_op<AutoContrast>(registry);
  add_op<ClipRange>(registry);
  add_op<ClipRangeGrad>(registry);
  add_op<EqualizeTiles>(registry);
  add_op<ImageColor>(registry);
  add_op<ImageContrast>(registry);
  add_op<ImageErase>(registry);
  add_op<ImageFilter>(registry);
}

}  // namespace plimsoll::ops
