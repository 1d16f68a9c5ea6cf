#pragma once

// Softmax along any axes after the batch, by way of the last one.

#include <span>

#include "layers/model/layer.h"

namespace plimsoll::layers {

// `op` is softmax or log_softmax; axes count from either end. Throws kModel by context.refuse.
ValueId softmax_along(LayerContext& context, ValueId x, std::span<const int64_t> axes,
                      std::string_view op = "softmax");

}  // namespace plimsoll::layers
