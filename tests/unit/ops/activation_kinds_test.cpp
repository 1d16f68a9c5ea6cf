// The activations' table, and values of f and f' where formulas are delicate.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/activation_functions.h"

namespace plimsoll::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Activation read(graph::Attributes attributes, const std::string& kind) {
  attributes.set("kind", kind);
  return read_activation(attributes);
}

TEST(ActivationKinds, EveryNameIsRead) {
  EXPECT_EQ(activation_names().size(), 26u);
  for (const std::string& name : activation_names()) {
    const Activation a = read({{"threshold", 0.5}, {"default_value", 0.0}}, name);
    const float y = activate(a, 0.25f);
    EXPECT_TRUE(std::isfinite(y)) << name;
    EXPECT_TRUE(std::isfinite(activation_slope(a, slope_needs_output(a) ? y : 0.25f))) << name;
  }
}

TEST(ActivationKinds, ReluWithArgumentsIsAnotherKind) {
  EXPECT_EQ(read({}, "relu").kind, ActivationKind::kRelu);
  EXPECT_EQ(read({{"negative_slope", 0.0}, {"threshold", 0.0}}, "relu").kind,
            ActivationKind::kRelu);
  EXPECT_EQ(read({{"negative_slope", 0.1}}, "relu").kind, ActivationKind::kLeakyRelu);
  EXPECT_EQ(read({{"max_value", 1.0}}, "relu").kind, ActivationKind::kGeneralRelu);
  EXPECT_EQ(read({{"approximate", true}}, "gelu").kind, ActivationKind::kGeluTanh);
}

TEST(ActivationKinds, LargeArgumentsStayFinite) {
  for (const char* name : {"softplus", "sigmoid", "log_sigmoid", "mish", "silu", "elu", "selu",
                           "tanh", "gelu", "softsign", "squareplus"}) {
    const Activation a = read({}, name);
    for (float x : {-200.0f, -89.0f, 89.0f, 200.0f}) {
      EXPECT_TRUE(std::isfinite(activate(a, x))) << name << " at " << x;
      const float reference = slope_needs_output(a) ? activate(a, x) : x;
      EXPECT_TRUE(std::isfinite(activation_slope(a, reference))) << name << "' at " << x;
    }
  }
  EXPECT_EQ(activate(read({}, "softplus"), 200.0f), 200.0f);
  EXPECT_EQ(activate(read({}, "softplus"), -200.0f), std::exp(-200.0f));
  EXPECT_EQ(activate(read({}, "sigmoid"), -kInfinity), 0.0f);
  EXPECT_EQ(activate(read({}, "sigmoid"), kInfinity), 1.0f);
}

TEST(ActivationKinds, SmallArgumentsKeepTheirDigits) {
  EXPECT_FLOAT_EQ(activate(read({}, "elu"), -1e-6f), -1e-6f);
  EXPECT_FLOAT_EQ(activate(read({{"alpha", 2.0}}, "celu"), -1e-6f), -1e-6f);
}

TEST(ActivationKinds, ReluAtZeroAndNan) {
  const Activation relu = read({}, "relu");
  EXPECT_TRUE(std::isnan(activate(relu, kNan)));
  EXPECT_EQ(activation_slope(relu, 0.0f), 0.0f);
  EXPECT_EQ(activation_slope(relu, -0.0f), 0.0f);
  EXPECT_EQ(activation_slope(relu, kNan), 0.0f);
}

// TensorFlow's conventions at the borders.
TEST(ActivationKinds, SlopesAtKinks) {
  EXPECT_EQ(activation_slope(read({}, "hard_tanh"), 1.0f), 1.0f);
  EXPECT_EQ(activation_slope(read({}, "relu6"), 6.0f), 0.0f);
  EXPECT_EQ(activation_slope(read({{"max_value", 6.0}}, "relu"), 6.0f), 0.0f);
  EXPECT_EQ(activation_slope(read({{"max_value", 2.0}}, "relu"), 2.0f), 1.0f);
  EXPECT_EQ(activation_slope(read({{"threshold", 1.0}}, "relu"), 1.0f), 0.0f);
  EXPECT_EQ(activation_slope(read({}, "leaky_relu"), 0.0f), 0.2f);
  EXPECT_EQ(activation_slope(read({}, "hard_sigmoid"), 3.0f), 0.0f);
  EXPECT_EQ(activation_slope(read({}, "celu"), 0.0f), 2.0f);
}

}  // namespace
}  // namespace plimsoll::ops
