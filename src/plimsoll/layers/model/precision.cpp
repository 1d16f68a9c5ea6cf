#include "layers/model/precision.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "base/suggest.h"

namespace plimsoll::layers {
namespace {

bool is_bf16(const graph::ValueType& type) { return type.dtype == DType::kBFloat16; }

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
  const bool bf16 = std::ranges::any_of(programs.programs, [](const graph::Program& program) {
    return std::ranges::any_of(program.graph.values, [](const graph::Value& value) {
      return value.type.dtype == DType::kBFloat16;
    });
  });
  return bf16 ? Precision::kBFloat16 : Precision::kFloat32;
}

std::vector<DType> wanted_dtypes(graph::Bf16Rule rule, std::span<const graph::ValueType> inputs,
                                 bool bf16) {
  std::vector<DType> wanted(inputs.size(), DType::kFloat32);
  if (!bf16) rule = {};
  const bool never = rule.use == graph::Bf16Use::kNever;
  const auto values = inputs.first(never ? 0 : std::min(rule.values, inputs.size()));
  // One number for a whole value is no value: it stays float32, and so does what it meets.
  const bool scalar = std::ranges::any_of(
      values, [](const graph::ValueType& type) { return type.shape.rank() == 0; });
  const bool any = std::ranges::any_of(values, is_bf16);
  if (!never && !scalar && (rule.use == graph::Bf16Use::kAsks || any)) {
    std::fill_n(wanted.begin(), values.size(), DType::kBFloat16);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool castable = inputs[i].dtype == DType::kFloat32 || inputs[i].dtype == DType::kBFloat16;
    if (!castable || inputs[i].dtype == wanted[i]) wanted[i] = DType::kOpaque;
  }
  return wanted;
}

}  // namespace plimsoll::layers
