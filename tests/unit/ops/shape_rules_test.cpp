// What operators refuse, and how they say so.

#include <gtest/gtest.h>

#include <functional>

#include "graph/builder.h"
#include "ops/registry.h"
#include "unit/base/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::GraphBuilder;
using graph::ValueId;
using test::expect_error;

Dim of(int64_t n) { return Dim::constant(n); }

class ShapeRules : public testing::Test {
 protected:
  ValueId input(Shape shape, DType dtype = DType::kFloat32) {
    return builder_.input("x", {dtype, std::move(shape)});
  }
  Shape shape_of(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    const graph::NodeId node = builder_.add(op, op, std::move(inputs), std::move(attributes));
    return builder_.graph().value(builder_.graph().node(node).outputs[0]).type.shape;
  }
  void refuses(const std::string& part, std::string_view op, std::vector<ValueId> inputs,
               Attributes attributes = {}) {
    builder_.set_layer("layer_7");
    expect_error(ErrorKind::kModel, part,
                 [&] { builder_.add(op, "node", std::move(inputs), std::move(attributes)); });
    expect_error(ErrorKind::kModel, "[layer_7]", [&] {
      builder_.add(op, "node", {}, {{"shape", "no list"}});
    });
  }

  GraphBuilder builder_{registry()};
};

Attributes conv(std::vector<int64_t> kernel, std::vector<int64_t> strides,
                std::vector<int64_t> padding, int64_t groups = 1) {
  return {{"filters", 8},
          {"kernel_size", kernel},
          {"strides", strides},
          {"padding", padding},
          {"dilation_rate", std::vector<int64_t>{1, 1}},
          {"groups", groups}};
}

TEST_F(ShapeRules, Conv2d) {
  const ValueId x = input({Dim::batch(), of(28), of(30), of(4)});
  const ValueId w = input({of(3), of(5), of(4), of(8)});
  EXPECT_EQ(shape_of("conv2d", {x, w}, conv({3, 5}, {2, 1}, {1, 1, 2, 2})),
            (Shape{Dim::batch(), of(14), of(30), of(8)}));
  refuses("expected rank 4 as input 0, received (B, 3)", "conv2d",
          {input({Dim::batch(), of(3)}), w}, conv({3, 5}, {1, 1}, {0, 0, 0, 0}));
  refuses("expected float32 (3, 3, 4, 8) as input 1, received float32 (3, 5, 4, 8)", "conv2d",
          {x, w}, conv({3, 3}, {1, 1}, {0, 0, 0, 0}));
  refuses("multiples of groups=3", "conv2d", {x, w}, conv({3, 5}, {1, 1}, {0, 0, 0, 0}, 3));
  refuses("at least as large as the kernel, received 28 x 30", "conv2d", {x, w},
          conv({31, 5}, {1, 1}, {0, 0, 0, 0}));
  refuses("attribute \"strides\" of at least 1, received 0", "conv2d", {x, w},
          conv({3, 5}, {0, 1}, {0, 0, 0, 0}));
  refuses("attribute \"kernel_size\": expected a list of integers, received none", "conv2d", {x, w},
          {{"filters", 8}});
}

TEST_F(ShapeRules, Conv3d) {
  const ValueId x = input({Dim::batch(), of(9), of(28), of(30), of(4)});
  const ValueId w = input({of(2), of(3), of(5), of(4), of(8)});
  Attributes attributes = conv({2, 3, 5}, {3, 2, 1}, {0, 1, 1, 1, 2, 2});
  attributes.set("dilation_rate", std::vector<int64_t>{2, 1, 1});
  EXPECT_EQ(shape_of("conv3d", {x, w}, attributes),
            (Shape{Dim::batch(), of(3), of(14), of(30), of(8)}));
  refuses("expected rank 5 as input 0, received (B, 9, 9, 4)", "conv3d",
          {input({Dim::batch(), of(9), of(9), of(4)}), w}, attributes);
  refuses("expected float32 (2, 3, 5, 4, 8) as input 1, received float32 (3, 5, 4, 8)", "conv3d",
          {x, input({of(3), of(5), of(4), of(8)})}, attributes);
  attributes.set("kernel_size", std::vector<int64_t>{9, 3, 5});
  refuses("at least as large as the kernel, received 9 x 28 x 30", "conv3d", {x, w}, attributes);
  attributes.set("kernel_size", std::vector<int64_t>{3, 5});
  refuses("attribute \"kernel_size\"", "conv3d", {x, w}, attributes);
}

TEST_F(ShapeRules, GroupedAndDilatedConvolutionsHaveSmallerKernelsAndLargerWindows) {
  const ValueId x = input({Dim::batch(), of(9), of(9), of(4)});
  const ValueId w = input({of(3), of(3), of(2), of(8)});
  Attributes attributes = conv({3, 3}, {1, 1}, {0, 0, 0, 0}, 2);
  attributes.set("dilation_rate", std::vector<int64_t>{2, 3});
  EXPECT_EQ(shape_of("conv2d", {x, w}, attributes), (Shape{Dim::batch(), of(5), of(3), of(8)}));
}

TEST_F(ShapeRules, Dense) {
  const ValueId x = input({Dim::batch(), of(6), of(10)});
  const ValueId w = input({of(10), of(3)});
  EXPECT_EQ(shape_of("dense", {x, w}, {{"units", 3}}), (Shape{Dim::batch(), of(6), of(3)}));
  refuses("expected 3 inputs, received 2", "dense", {x, w}, {{"units", 3}, {"use_bias", true}});
  refuses("among \"linear\", \"relu\", received \"rellu\"", "dense", {x, w},
          {{"units", 3}, {"activation", "rellu"}});
  refuses("Put a cast before it", "dense", {input({Dim::batch(), of(10)}, DType::kUInt8), w},
          {{"units", 3}});
}

TEST_F(ShapeRules, StepsThatMayBeSkipped) {
  const ValueId w = input({of(4), of(3)});
  const ValueId squares = input({});
  EXPECT_EQ(shape_of("if_finite", {w, w, squares}, {}), (Shape{of(4), of(3)}));
  refuses("expected 3 inputs, received 2", "if_finite", {w, w}, {});
  refuses("received float32 (4)", "if_finite", {w, input({of(4)}), squares}, {});
  const ValueId steps = input({}, DType::kInt64);
  EXPECT_EQ(shape_of("next_loss_scale", {steps, squares, squares}, {{"growth_steps", 3}}), Shape());
  refuses("attribute \"growth_steps\"", "next_loss_scale", {steps, squares, squares}, {});
}

TEST_F(ShapeRules, BatchMaxAndWaves) {
  EXPECT_EQ(shape_of("batch_max", {input({Dim::batch(), of(6)})}, {}), Shape());
  refuses("Put a cast before it", "batch_max", {input({Dim::batch()}, DType::kInt32)}, {});
  Attributes waves{{"shape", std::vector<int64_t>{8, 1, 5}},
                   {"side", "real"},
                   {"window", "hann"},
                   {"scaling", "none"}};
  EXPECT_EQ(shape_of("fourier_waves", {}, waves), (Shape{of(8), of(1), of(5)}));
  waves.set("shape", std::vector<int64_t>{8, 2, 5});
  refuses("a shape of frames, 1 and two or more frequencies", "fourier_waves", {}, waves);
  waves.set("window", "han");
  refuses("Did you mean \"hann\"?", "fourier_waves", {}, waves);
}

TEST_F(ShapeRules, Activation) {
  const ValueId x = input({Dim::batch(), of(6)});
  refuses("received \"sigmod\". Did you mean \"sigmoid\"?", "activation", {x},
          {{"kind", "sigmod"}});
  refuses("expected 0 or more, received -1", "activation", {x}, {{"kind", "elu"}, {"alpha", -1.0}});
  refuses("expected reference=\"y\"", "activation_grad", {x, x},
          {{"kind", "relu"}, {"reference", "x"}});
}

TEST_F(ShapeRules, Pooling) {
  const ValueId x = input({Dim::batch(), of(40), of(40), of(3)});
  const auto pool = [](int64_t size) {
    return Attributes{{"pool_size", std::vector<int64_t>{size, size}},
                      {"strides", std::vector<int64_t>{size, size}},
                      {"padding", std::vector<int64_t>{0, 0, 0, 0}}};
  };
  EXPECT_EQ(shape_of("max_pool2d", {x}, pool(16)), (Shape{Dim::batch(), of(2), of(2), of(3)}));
  refuses("at most 256 positions", "max_pool2d", {x}, pool(17));
  refuses("at least as large as the window", "avg_pool2d", {x}, pool(41));
  Attributes wide = pool(17);
  wide.set("winner_dtype", "int32");
  EXPECT_EQ(shape_of("max_pool2d", {x}, wide), (Shape{Dim::batch(), of(2), of(2), of(3)}));
  Attributes padded = pool(2);
  padded.set("padding", std::vector<int64_t>{2, 0, 0, 0});
  refuses("padding smaller than the window", "max_pool2d", {x}, padded);
}

TEST_F(ShapeRules, PoolingOfVolumes) {
  const ValueId x = input({Dim::batch(), of(9), of(7), of(6), of(5)});
  const Attributes pool = {{"pool_size", std::vector<int64_t>{3, 3, 2}},
                           {"strides", std::vector<int64_t>{3, 3, 2}},
                           {"padding", std::vector<int64_t>{0, 0, 1, 1, 0, 0}}};
  EXPECT_EQ(shape_of("max_pool3d", {x}, pool), (Shape{Dim::batch(), of(3), of(3), of(3), of(5)}));
  const graph::NodeId node = builder_.add("max_pool3d", "winners", {x}, pool);
  const graph::ValueType& winners =
      builder_.graph().value(builder_.graph().node(node).outputs[1]).type;
  // A bit for each of 18 positions.
  EXPECT_EQ(winners.dtype, DType::kUInt8);
  EXPECT_EQ(winners.shape, (Shape{Dim::batch(), of(3), of(3), of(3), of(15)}));
  Attributes large = pool;
  large.set("pool_size", std::vector<int64_t>{10, 3, 2});
  refuses("at least as large as the window, received 9 x 7 x 6", "max_pool3d", {x}, large);
  // No window of so many positions could have its bits.
  constexpr int64_t kHuge = int64_t{1} << 21;
  large.set("pool_size", std::vector<int64_t>{kHuge, kHuge, kHuge});
  large.set("padding",
            std::vector<int64_t>{kHuge - 1, kHuge - 1, kHuge - 1, kHuge - 1, kHuge - 1, kHuge - 1});
  refuses("positions in a window", "max_pool3d", {x}, large);
  refuses("expected rank 5", "max_pool3d", {input({Dim::batch(), of(9), of(7), of(6)})}, pool);
}

TEST_F(ShapeRules, Shapes) {
  const ValueId x = input({Dim::batch(), of(4), of(6)});
  EXPECT_EQ(shape_of("reshape", {x}, {{"shape", std::vector<int64_t>{24}}}),
            (Shape{Dim::batch(), of(24)}));
  refuses("24 elements per sample", "reshape", {x}, {{"shape", std::vector<int64_t>{23}}});
  refuses("an axis after the batch", "concat", {x, x}, {{"axis", 0}});
  refuses("an axis after the batch", "softmax", {x}, {{"axis", 3}});
  refuses("expected the last axis, received axis=1", "softmax", {x}, {{"axis", 1}});
  refuses("a range inside", "slice", {x}, {{"axis", 1}, {"begin", 2}, {"count", 3}});
  refuses("an even extent", "glu", {input({Dim::batch(), of(3)})});
  refuses("something left", "crop2d", {input({Dim::batch(), of(3), of(3), of(1)})},
          {{"cropping", std::vector<int64_t>{2, 1, 0, 0}}});
}

TEST_F(ShapeRules, Images) {
  const ValueId x = input({Dim::batch(), of(6), of(5), of(2)});
  const Attributes size{{"size", std::vector<int64_t>{4, 9}}, {"site", 1}};
  EXPECT_EQ(shape_of("resize2d", {x}, size), (Shape{Dim::batch(), of(4), of(9), of(2)}));
  refuses("a size within the input", "image_crop", {x}, size);
  refuses("2^24 rows", "resize2d", {x}, {{"size", std::vector<int64_t>{1 << 25, 1}}});
  Attributes color{{"kind", "hue"}, {"site", 1}};
  for (const char* key :
       {"lower", "upper", "second_lower", "second_upper", "value_low", "value_high"}) {
    color.set(key, 0.5);
  }
  refuses("three channels", "image_color", {x}, color);
  color.set("kind", "hues");
  refuses("\"hues\"", "image_color", {x}, color);
  color.set("clip_limit", 1.0);
  color.set("tiles", std::vector<int64_t>{3, 11});
  refuses("at most 10 tiles side by side in 5 pixels", "equalize_tiles", {x}, color);
  color.set("kind", "blur");
  color.set("size", std::vector<int64_t>{3, 4});
  refuses("odd sizes of at most 63", "image_filter", {x}, color);
}

TEST_F(ShapeRules, DirectionsOfMatrices) {
  const ValueId high = input({Dim::batch(), of(5), of(3)});
  const ValueId square = input({Dim::batch(), of(3), of(3)});
  EXPECT_EQ(shape_of("eigenvectors", {square}), (Shape{Dim::batch(), of(3)}));
  EXPECT_EQ(shape_of("singular_vectors", {high}), (Shape{Dim::batch(), of(5), of(3)}));
  refuses("expected a square matrix for each sample", "eigenvectors", {high});
  refuses("expected a matrix for each sample", "singular_vectors", {input({of(2), of(5), of(3)})});
  refuses("expected float32 (B, 3)", "eigenvectors_grad", {square, square, square, square});
  const ValueId values = input({Dim::batch(), of(3)});
  const ValueId fewer = input({Dim::batch(), of(5), of(2)});
  refuses("as many vectors of one side as of the other", "singular_vectors_grad",
          {high, values, fewer, high, values, fewer});
}

TEST_F(ShapeRules, Bitcast) {
  const ValueId x = input({Dim::batch(), of(6)});
  EXPECT_EQ(shape_of("bitcast", {x}, {{"dtype", "uint8"}}), (Shape{Dim::batch(), of(24)}));
  EXPECT_EQ(shape_of("bitcast", {x}, {{"dtype", "int64"}}), (Shape{Dim::batch(), of(3)}));
  refuses("whose bytes are numbers of int64", "bitcast", {input({Dim::batch(), of(3)})},
          {{"dtype", "int64"}});
  refuses("expected float32, float64 or integers", "bitcast", {x}, {{"dtype", "bool"}});
}

TEST_F(ShapeRules, Losses) {
  const ValueId x = input({Dim::batch(), of(4)});
  const ValueId labels = input({Dim::batch()}, DType::kInt32);
  EXPECT_EQ(shape_of("mean_squared_error", {x, x}), Shape{Dim::batch()});
  EXPECT_EQ(shape_of("sparse_categorical_crossentropy", {x, labels}), Shape{Dim::batch()});
  refuses("expected integers as input 1, received float32", "sparse_categorical_crossentropy",
          {x, input({Dim::batch()})});
  refuses("expected float32 (B, 4) as input 1, received int32 (B)", "binary_crossentropy",
          {x, labels});
  refuses("expected int32 (B) as input 1, received int32 (B, 4)", "sparse_categorical_crossentropy",
          {x, input({Dim::batch(), of(4)}, DType::kInt32)});
}

TEST_F(ShapeRules, DropoutAndInitializers) {
  const ValueId x = input({Dim::batch(), of(4)});
  refuses("a rate below 1", "dropout", {x}, {{"rate", 1.0}, {"site", 1}});
  refuses("between 0", "dropout", {x}, {{"rate", -0.5}, {"site", 1}});
  refuses("attribute \"site\"", "random_uniform", {},
          {{"shape", std::vector<int64_t>{2}}, {"minval", 0.0}, {"maxval", 1.0}});
  refuses("at least two dimensions", "orthogonal", {},
          {{"shape", std::vector<int64_t>{2}}, {"gain", 1.0}, {"site", 1}});
  EXPECT_EQ(shape_of("constant", {}, {{"shape", std::vector<int64_t>{}}, {"value", 3}}), Shape());
}

TEST_F(ShapeRules, OptimizersWantSlotsOfTheWeightsType) {
  const ValueId w = input({of(3), of(4)});
  const ValueId lr = input(Shape());
  const ValueId t = input(Shape(), DType::kInt64);
  const Attributes adam{{"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}};
  EXPECT_EQ(shape_of("adam", {w, w, w, w, lr, t}, adam), (Shape{of(3), of(4)}));
  refuses("expected 6 inputs, received 5", "adam", {w, w, w, w, lr}, adam);
  refuses("as input 3", "adam", {w, w, w, input({of(3)}), lr, t}, adam);
  refuses("attribute \"beta_1\": expected a number, received none", "adam", {w, w, w, w, lr, t});
}

}  // namespace
}  // namespace plimsoll::ops
