#pragma once

// Keras's elementwise activations: names, parameters, and what their gradients need.
//
// f and f' themselves are in activation_functions.h. f' is computed from the input x or from the
// output y; which one a kind uses is in the table, so that what a plan must keep is known without
// running anything. At kinks f' is what TensorFlow's gradients give (relu'(0) = 0, clipping passes
// at its borders, relu6 does not).

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "graph/attributes.h"

namespace plimsoll::ops {

enum class ActivationKind : uint8_t {
  kLinear,
  kRelu,  // plain: no slope, maximum or threshold
  kGeneralRelu,
  kRelu6,
  kLeakyRelu,
  kSigmoid,
  kTanh,
  kElu,
  kCelu,
  kSelu,
  kSoftplus,
  kSoftsign,
  kExponential,
  kGelu,
  kGeluTanh,
  kSilu,
  kHardSigmoid,
  kHardSilu,
  kHardTanh,
  kHardShrink,
  kSoftShrink,
  kTanhShrink,
  kThreshold,
  kMish,
  kLogSigmoid,
  kSquareplus,
  kSparsePlus,
  kSparseSigmoid,
};

struct Activation {
  ActivationKind kind = ActivationKind::kLinear;
  double alpha = 1.0;           // elu, celu
  double negative_slope = 0.0;  // relu, leaky_relu
  double max_value = std::numeric_limits<double>::infinity();
  double threshold = 0.0;      // relu, threshold, hard_shrink, soft_shrink
  double default_value = 0.0;  // threshold
  double b = 4.0;              // squareplus
};

// Reads {kind, …} of an activation or activation_grad node; Keras's names, its defaults for what
// is left out. Throws kModel with a did-you-mean.
Activation read_activation(const graph::Attributes& attributes);
// All names, in table order: "linear", "relu", ….
std::vector<std::string> activation_names();
// Whether f' is computed from the output; else from the input. (Neither matters for linear.)
bool slope_needs_output(const Activation& activation);

}  // namespace plimsoll::ops
