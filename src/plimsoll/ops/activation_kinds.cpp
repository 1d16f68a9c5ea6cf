#include "ops/activation_kinds.h"

#include <array>
#include <initializer_list>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"

namespace plimsoll::ops {
namespace {

struct Row {
  std::string_view name;
  ActivationKind kind;
  bool slope_from_output;
};

constexpr std::array kRows = {
    Row{"linear", ActivationKind::kLinear, true},
    Row{"relu", ActivationKind::kRelu, true},
    Row{"relu6", ActivationKind::kRelu6, true},
    Row{"leaky_relu", ActivationKind::kLeakyRelu, true},
    Row{"sigmoid", ActivationKind::kSigmoid, true},
    Row{"tanh", ActivationKind::kTanh, true},
    Row{"elu", ActivationKind::kElu, true},
    Row{"celu", ActivationKind::kCelu, false},
    Row{"selu", ActivationKind::kSelu, true},
    Row{"softplus", ActivationKind::kSoftplus, false},
    Row{"softsign", ActivationKind::kSoftsign, false},
    Row{"exponential", ActivationKind::kExponential, true},
    Row{"gelu", ActivationKind::kGelu, false},
    Row{"silu", ActivationKind::kSilu, false},
    Row{"hard_sigmoid", ActivationKind::kHardSigmoid, false},
    Row{"hard_silu", ActivationKind::kHardSilu, false},
    Row{"hard_tanh", ActivationKind::kHardTanh, false},
    Row{"hard_shrink", ActivationKind::kHardShrink, true},
    Row{"soft_shrink", ActivationKind::kSoftShrink, true},
    Row{"tanh_shrink", ActivationKind::kTanhShrink, false},
    Row{"threshold", ActivationKind::kThreshold, false},
    Row{"mish", ActivationKind::kMish, false},
    Row{"log_sigmoid", ActivationKind::kLogSigmoid, false},
    Row{"squareplus", ActivationKind::kSquareplus, false},
    Row{"sparse_plus", ActivationKind::kSparsePlus, false},
    Row{"sparse_sigmoid", ActivationKind::kSparseSigmoid, false},
};

const Row& row_of(const std::string& name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row;
  }
  throw Error(ErrorKind::kModel,
              "attribute \"kind\": expected the name of an activation, received "
              "\"" +
                  name + "\"." + did_you_mean(name, activation_names()));
}

void expect_not_negative(std::string_view key, double value) {
  if (value >= 0.0) return;
  throw Error(
      ErrorKind::kModel,
      fmt::format("attribute \"{}\": expected 0 or more, received {:f}. Choose another activation.",
                  key, value));
}

// relu with arguments is another kind, as in Keras.
void refine_relu(Activation& activation, const graph::Attributes& attributes) {
  activation.negative_slope = attributes.get_double("negative_slope", 0.0);
  activation.max_value = attributes.get_double("max_value", activation.max_value);
  activation.threshold = attributes.get_double("threshold", 0.0);
  expect_not_negative("negative_slope", activation.negative_slope);
  expect_not_negative("max_value", activation.max_value);
  const bool bounded = attributes.has("max_value");
  if (bounded || activation.threshold != 0.0) {
    activation.kind = ActivationKind::kGeneralRelu;
  } else if (activation.negative_slope != 0.0) {
    activation.kind = ActivationKind::kLeakyRelu;
  }
}

}  // namespace

Activation read_activation(const graph::Attributes& attributes) {
  Activation activation;
  activation.kind = row_of(attributes.get_string("kind")).kind;
  switch (activation.kind) {
    case ActivationKind::kRelu:
      refine_relu(activation, attributes);
      break;
    case ActivationKind::kLeakyRelu:
      activation.negative_slope = attributes.get_double("negative_slope", 0.2);
      expect_not_negative("negative_slope", activation.negative_slope);
      break;
    case ActivationKind::kElu:
    case ActivationKind::kCelu:
      activation.alpha = attributes.get_double("alpha", 1.0);
      expect_not_negative("alpha", activation.alpha);
      break;
    case ActivationKind::kHardShrink:
    case ActivationKind::kSoftShrink:
      activation.threshold = attributes.get_double("threshold", 0.5);
      expect_not_negative("threshold", activation.threshold);
      break;
    case ActivationKind::kThreshold:
      activation.threshold = attributes.get_double("threshold");
      activation.default_value = attributes.get_double("default_value");
      break;
    case ActivationKind::kSquareplus:
      activation.b = attributes.get_double("b", 4.0);
      expect_not_negative("b", activation.b);
      break;
    case ActivationKind::kGelu:
      if (attributes.get_bool("approximate", false)) activation.kind = ActivationKind::kGeluTanh;
      break;
    default:
      break;
  }
  return activation;
}

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  names.reserve(kRows.size());
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

bool slope_needs_output(const Activation& activation) {
  for (const Row& row : kRows) {
    if (row.kind == activation.kind) return row.slope_from_output;
  }
  return false;  // relu with arguments, gelu's tanh form
}

}  // namespace plimsoll::ops
