#include <gtest/gtest.h>

#include "api/layers.h"
#include "api/spec_impl.h"
#include "unit/base/expect_error.h"

namespace plimsoll {
namespace {

using api::ModelBuilder;
using test::expect_error;

std::vector<std::string> weights_of(const layers::Model& model) {
  std::vector<std::string> names;
  for (const layers::ModelWeight& weight : model.all_weights()) names.push_back(weight.name);
  return names;
}

TEST(ModelBuilder, SequentialStandsInOrder) {
  const layers::Model model =
      ModelBuilder::sequential({Input({4}), Dense(3, relu), Dense(2)}, "net");
  EXPECT_EQ(model.name(), "net");
  EXPECT_EQ(model.kind(), layers::ModelKind::kSequential);
  EXPECT_EQ(model.layer_count(), 3u);
  EXPECT_EQ(model.parameters().total(), 4 * 3 + 3 + 3 * 2 + 2);
  EXPECT_EQ(to_string(model.outputs()[0].type.shape), "(B, 2)");
}

TEST(ModelBuilder, LayersThatAreCalledTwiceShareTheirWeights) {
  const Input a({4}, {.name = "a"});
  const Input b({4}, {.name = "b"});
  const Dense shared(4, DenseOptions{.name = "shared"});
  const Tensor x = shared(a);
  const Tensor y = shared(b);
  const Tensor sum = Add()({x, y});
  const layers::Model model = ModelBuilder::functional({a, b}, {Dense(2)(sum), x}, "f");
  EXPECT_EQ(weights_of(model), (std::vector<std::string>{"shared/kernel", "shared/bias",
                                                         "dense/kernel", "dense/bias"}));
  ASSERT_EQ(model.outputs().size(), 2u);
  EXPECT_EQ(model.outputs()[1].name, "shared");
  EXPECT_EQ(model.calls().size(), 6u);
  EXPECT_EQ(model.inputs()[1].name, "b");
}

TEST(ModelBuilder, ValuesThatAreUsedTwiceAreMadeOnce) {
  const Input x({4});
  const Tensor h = Dense(4)(x);
  const layers::Model model = ModelBuilder::functional({x}, {Concatenate()({h, h, x})}, "f");
  EXPECT_EQ(model.calls().size(), 3u);
  EXPECT_EQ(to_string(model.outputs()[0].type.shape), "(B, 12)");
}

TEST(ModelBuilder, InputsStandInTheOrderGiven) {
  const Input a({1}, {.name = "a"});
  const Input b({1}, {.name = "b", .dtype = "uint8"});
  const layers::Model model =
      ModelBuilder::functional({b, a}, {Dense(1)(a), Rescaling(0.5)(b)}, "f");
  EXPECT_EQ(model.inputs()[0].name, "b");
  EXPECT_EQ(model.inputs()[0].type.dtype, DType::kUInt8);
}

TEST(ModelBuilder, DeepModelsTakeNoStack) {
  const Input x({2});
  Tensor y = x;
  for (int i = 0; i < 5000; ++i) y = Activation(relu, {.name = "r" + std::to_string(i)})(y);
  EXPECT_EQ(ModelBuilder::functional({x}, {y}, "deep").layer_count(), 5001u);
}

TEST(ModelBuilder, RefusesModelsThatAreNotClosed) {
  const Input a({4}, {.name = "a"});
  const Input b({4}, {.name = "b"});
  const Tensor y = Add()({a, b});
  expect_error(ErrorKind::kModel, "received one more: b",
               [&] { ModelBuilder::functional({a}, {y}, "f"); });
  expect_error(ErrorKind::kModel, "[a] expected different Inputs", [&] {
    ModelBuilder::functional({a, a, b}, {y}, "f");
  });
  expect_error(ErrorKind::kModel, "received the output of a layer",
               [&] { ModelBuilder::functional({y}, {y}, "f"); });
  expect_error(ErrorKind::kModel, "expected an output",
               [&] { ModelBuilder::functional({a}, {}, "f"); });
  expect_error(ErrorKind::kModel, "expected an input", [&] { ModelBuilder::sequential({}, "s"); });
  expect_error(ErrorKind::kModel, "input shape",
               [&] { ModelBuilder::sequential({Dense(2)}, "s"); });
}

TEST(ModelBuilder, RefusesALayerThatStandsTwiceInASequential) {
  const Dense layer(4, DenseOptions{.name = "twice"});
  expect_error(ErrorKind::kModel, "[twice] expected each layer once", [&] {
    ModelBuilder::sequential({Input({4}), layer, layer}, "s");
  });
}

TEST(ModelBuilder, NamesTheLayerThatCannotBeCalled) {
  const Input a({4});
  const Input b({5});
  expect_error(ErrorKind::kModel, "[sum]", [&] {
    ModelBuilder::functional({a, b}, {Add({.name = "sum"})({a, b})}, "f");
  });
}

}  // namespace
}  // namespace plimsoll
