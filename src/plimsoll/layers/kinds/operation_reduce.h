#pragma once

// Operators of keras.ops that fold axes of each sample, and products of matrices.

#include <span>
#include <string_view>

#include "layers/model/layer.h"

namespace plimsoll::layers {

// `kind` is sum, mean, maximum, minimum, any or all; axes count from the front, after the batch.
ValueId reduce_axes(LayerContext& context, ValueId x, std::span<const int64_t> axes, bool keepdims,
                    std::string_view kind);

// keras.ops.matmul of two values of one rank, 3 or more, whose leading extents agree.
ValueId matmul(LayerContext& context, ValueId a, ValueId b);

}  // namespace plimsoll::layers
