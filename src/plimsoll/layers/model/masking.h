#pragma once

// How masks pass through layers that do not look at them.
//
// A mask says which positions of a value count: a bool value of the value's leading dimensions (the
// batch and mostly the time). It begins at Embedding(mask_zero) or Masking, and ends at a layer
// that does not pass it on. Layers that use masks, or make their own, say so in their call.

#include "layers/model/layer.h"

namespace plimsoll::layers {

// The mask of a call's output where the call said nothing, as the layer's traits say
// (layer_traits.h); invalid: none.
ValueId default_mask(graph::GraphBuilder& builder, const Layer& layer,
                     std::span<const ValueId> masks);

// A mask whose one dimension more than the shape has is 1, without it; others as they are.
ValueId without_last_one(graph::GraphBuilder& builder, const std::string& name, ValueId mask,
                         const Shape& shape);

// a or b, elementwise; extents of 1 repeat. Throws kModel where the shapes do not allow it.
ValueId either_mask(graph::GraphBuilder& builder, const std::string& name, ValueId a, ValueId b);

}  // namespace plimsoll::layers
