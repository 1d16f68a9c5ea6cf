#include "layers/model/precision.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "base/suggest.h"

namespace plimsoll::layers {
namespace {

// How many of an operator's first inputs are values; kAll: every one.
constexpr size_t kAll = 1000;
struct Row {
  std::string_view op;
  bool product = false;
  size_t values = 1;
};

constexpr Row kRows[] = {
    {"conv2d", true, 2},
    {"conv2d_grad_input", true, 2},  // of Conv2DTranspose
    {"dense", true, 2},
    {"activation"},
    {"add", false, kAll},
    {"avg_pool2d"},
    {"batch_norm"},
    {"batch_norm_groups"},
    {"batch_norm_inference"},
    {"bias_add"},
    {"channel_moments"},
    {"concat", false, kAll},
    {"crop2d"},
    {"dropout"},
    {"fold_batch"},
    {"global_average_pool2d"},
    {"global_max_pool2d"},
    {"max_pool2d"},
    {"moving_moments"},
    {"multiply", false, kAll},
    {"pad_axis"},
    {"reshape"},
    {"scale_shift"},
    {"slice"},
    {"spatial_dropout"},
    {"subtract", false, kAll},
    {"transpose"},
    {"unfold_batch"},
    {"upsample2d"},
    {"zero_pad2d"},
};

const Row* find_row(std::string_view op) {
  const auto* row = std::ranges::find(kRows, op, &Row::op);
  return row == std::end(kRows) ? nullptr : row;
}

bool is_narrow(const graph::ValueType& type) { return type.dtype == DType::kBFloat16; }

}  // namespace

Precision parse_precision(std::string_view text) {
  if (text.empty()) return Precision::kOfLayers;
  if (text == "f32") return Precision::kFloat32;
  if (text == "bf16") return Precision::kBFloat16;
  constexpr std::array<std::string_view, 2> kNames = {"f32", "bf16"};
  const bool half = text == "f16" || text == "fp16" || text == "float16";
  throw Error(ErrorKind::kConfig,
              "--precision: expected f32 or bf16, received " + std::string(text) + "." +
                  (half ? " This program has no float16: bf16 is as small, and needs no scaling of "
                          "the loss."
                        : did_you_mean(text, kNames)));
}

std::string_view to_string(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return "f32";
    case Precision::kBFloat16:
      return "bf16";
    case Precision::kOfLayers:
      break;
  }
  return "";
}

Precision precision_of(const graph::ProgramSet& programs) {
  const bool narrow = std::ranges::any_of(programs.programs, [](const graph::Program& program) {
    return std::ranges::any_of(program.graph.values, [](const graph::Value& value) {
      return value.type.dtype == DType::kBFloat16;
    });
  });
  return narrow ? Precision::kBFloat16 : Precision::kFloat32;
}

std::vector<DType> wanted_dtypes(std::string_view op, std::span<const graph::ValueType> inputs,
                                 bool narrow) {
  std::vector<DType> wanted(inputs.size(), DType::kFloat32);
  const Row* row = narrow ? find_row(op) : nullptr;
  const auto values = inputs.first(row == nullptr ? 0 : std::min(row->values, inputs.size()));
  // One number for a whole value is no value: it stays float32, and so does what it meets.
  const bool scalar = std::ranges::any_of(
      values, [](const graph::ValueType& type) { return type.shape.rank() == 0; });
  const bool any = std::ranges::any_of(values, is_narrow);
  if (row != nullptr && !scalar && (row->product || any)) {
    std::fill_n(wanted.begin(), values.size(), DType::kBFloat16);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool castable = inputs[i].dtype == DType::kFloat32 || inputs[i].dtype == DType::kBFloat16;
    if (!castable || inputs[i].dtype == wanted[i]) wanted[i] = DType::kOpaque;
  }
  return wanted;
}

}  // namespace plimsoll::layers
