#pragma once

// Operators of keras.ops that fold axes of each sample.

#include <span>
#include <string_view>

#include "layers/model/layer.h"

namespace plimsoll::layers {

// `kind` is sum, mean, maximum, minimum, any or all; axes count from the front, after the batch.
ValueId reduce_axes(LayerContext& context, ValueId x, std::span<const int64_t> axes, bool keepdims,
                    std::string_view kind);

}  // namespace plimsoll::layers
