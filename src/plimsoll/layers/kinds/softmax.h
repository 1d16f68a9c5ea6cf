#pragma once

// Softmax along any axes after the batch, by way of the last one; and sparsemax.

#include <span>

#include "layers/model/layer.h"

namespace plimsoll::layers {

// `op` is softmax or log_softmax; axes count from either end. Throws kModel by context.refuse.
ValueId softmax_along(LayerContext& context, ValueId x, std::span<const int64_t> axes,
                      std::string_view op = "softmax");

// What Keras computes for sparsemax along one axis after the batch: max(x − τ, 0), where τ is the
// sum of all cumulative sums over the support, less 1, over its size. (Martins and Astudillo, 2016,
// take the last cumulative sum alone.) Throws kModel by context.refuse.
ValueId sparsemax_along(LayerContext& context, ValueId x, int64_t axis);

}  // namespace plimsoll::layers
