#pragma once

// Which nodes of a model compute on bfloat16 values, and where the casts stand.
//
// Mixed precision as Keras's mixed_bfloat16: weights, statistics, sums, losses and the optimizer
// stay float32; activations, their gradients and the factors of products are bfloat16. Layers do
// not know of it. What each operator that a layer adds is called on is cast to fit the operator's
// rule (graph/op_traits.h):
//
//   asks       its values and weights become bfloat16                       conv2d, dense
//   follows    bfloat16 where one of its values is; weights stay float32    bias_add, max_pool2d
//   never      float32: what has no bfloat16 form, and what must not        softmax, layer_norm
//
// Autodiff does the rest: gradients of bfloat16 values are bfloat16, of weights float32. Casts are
// nodes like any other, so a value is rounded once and has the same bits in every plan.

#include <span>
#include <string_view>
#include <vector>

#include "graph/ir.h"
#include "graph/op_traits.h"
#include "graph/program.h"

namespace plimsoll::layers {

// --precision. kOfLayers: what each layer's own policy says, float32 where it says nothing.
enum class Precision : uint8_t { kOfLayers, kFloat32, kBFloat16 };

// "f32", "bf16", "" (of layers). Throws kConfig with the known names.
Precision parse_precision(std::string_view text);
std::string_view to_string(Precision precision);
// What programs compute in: kBFloat16 where any value is stored in it, else kFloat32.
Precision precision_of(const graph::ProgramSet& programs);

// The dtype that each input of an operator of that rule is cast to where it is of floating point
// and another one; kOpaque: it stays as it is. `bf16`: the layer computes in bfloat16.
std::vector<DType> wanted_dtypes(graph::Bf16Rule rule, std::span<const graph::ValueType> inputs,
                                 bool bf16);

}  // namespace plimsoll::layers
