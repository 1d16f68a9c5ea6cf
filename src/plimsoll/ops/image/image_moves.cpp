// Images whose pixels move at random (image_draws.h); where they come from is {site}, a number that
// stands for the call site's stable name.
//
//   image_flip   {horizontal, vertical}   a sample is mirrored, or not, along both that are asked
//                                         for; its own gradient
//   image_crop   {size}                   rows and columns from a corner that the batch shares;
//                                         image_crop_grad puts a gradient back among zeros
//   image_warp   {motion}                 each sample by a linear map of its own, which says where
//                                         in the input an output pixel lies: a "rotation" by an
//                                         angle of turns, a "zoom", a "translation" by shares of
//                                         the image, a "shear". {height_lower, height_upper,
//                                         width_lower, width_upper} bound what is drawn; {joined}:
//                                         the width takes the height's draw; a rotation draws
//                                         between the height's bounds.
//
// image_warp looks outside of the image by {fill_mode}: a constant {fill_value}, the nearest pixel,
// a reflection or a repetition. It has no gradient: TensorFlow's own is none either, but another
// warp.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class ImageFlip final : public BatchMapOp {
 public:
  ImageFlip() : BatchMapOp("image_flip") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    expect_rank(node, 0, 4, 4);
    node.attributes.get_bool("horizontal");
    node.attributes.get_bool("vertical");
    node.attributes.get_int("site");
    return {node.inputs[0]};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(
        0, context.builder().call("image_flip", context.name("grad"), {context.output_gradient(0)},
                                  context.attributes()));
  }

  OpTraits traits() const override {
    return {.random = true, .cheap = true, .bf16 = graph::kFollowsFirst};
  }
};

class ImageCrop final : public BatchMapOp {
 public:
  // `grad`: {size} is larger than the input.
  ImageCrop(std::string_view name, bool grad) : BatchMapOp(name), grad_(grad) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    expect_rank(node, 0, 4, 4);
    node.attributes.get_int("site");
    const std::vector<int64_t> size = read_ints(node, "size", 2, 1);
    ValueType y = node.inputs[0];
    for (int d = 0; d < 2; ++d) {
      const int64_t from = y.shape[1 + d].count;
      const int64_t to = size[static_cast<size_t>(d)];
      if (grad_ ? to < from : to > from) {
        refuse(grad_ ? "a size that holds the input" : "a size within the input",
               to_string(node.inputs[0].shape) + " to " + std::to_string(to),
               "Check the node's attributes.");
      }
      y.shape[1 + d] = Dim::constant(to);
    }
    return {y};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const Shape& x = context.input_type(0).shape;
    Attributes attributes = context.attributes();
    attributes.set("size", std::vector<int64_t>{x[1].count, x[2].count});
    context.set_gradient(0, context.builder().call("image_crop_grad", context.name("grad"),
                                                   {context.output_gradient(0)}, attributes));
  }

  OpTraits traits() const override {
    return {.random = true, .cheap = true, .bf16 = graph::kFollowsFirst};
  }

 private:
  bool grad_;
};

class ImageWarp final : public BatchMapOp {
 public:
  ImageWarp() : BatchMapOp("image_warp") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    expect_rank(node, 0, 4, 4);
    read_name(node, "motion", "", {"rotation", "zoom", "translation", "shear", "perspective"});
    read_name(node, "fill_mode", "reflect", {"constant", "nearest", "reflect", "wrap"});
    read_name(node, "interpolation", "bilinear", {"nearest", "bilinear"});
    read_double(node, "fill_value", -1e30, 1e30);
    for (const char* key : {"height_lower", "height_upper", "width_lower", "width_upper"}) {
      read_double(node, key, -2.0, 2.0);
    }
    node.attributes.get_bool("joined");
    node.attributes.get_int("site");
    return {node.inputs[0]};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    refuse(
        "random rotations, zooms, translations, shears and perspectives in front of all layers "
        "that are trained",
        "one after a layer with weights, which would need its gradient",
        "Move the layer to the start of the model, or freeze the layers in front of it.");
  }

  OpTraits traits() const override { return {.random = true, .bf16 = graph::kFollowsFirst}; }

  double flops_per_sample(const NodeTypes& node) const override {
    return 20.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

}  // namespace

void register_image_moves(OpRegistry& registry) {
  add_op<ImageFlip>(registry);
  add_op<ImageCrop>(registry, "image_crop", false);
  add_op<ImageCrop>(registry, "image_crop_grad", true);
  add_op<ImageWarp>(registry);
}

}  // namespace plimsoll::ops
