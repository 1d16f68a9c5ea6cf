#pragma once

// The operands of a convolution's primitive as the vendor describes them: images and volumes
// channels last, weights plain or as the primitive likes them.

#include "backend/onednn/convolution.h"
#include "backend/onednn/vendor.h"

namespace plimsoll::backend::onednn {

// (sizes…, channels / groups, filters) as the vendor's dimensions see it.
dnnl::memory::desc plain_weights(const Convolution& convolution);
dnnl::memory::desc any_weights(const Convolution& convolution);

// x, or dx.
dnnl::memory::desc source_of(const Convolution& convolution);
// y, or dy. What is about to be pooled is not rounded before.
dnnl::memory::desc result_of(const Convolution& convolution);
dnnl::memory::desc bias_of(const Convolution& convolution);

}  // namespace plimsoll::backend::onednn
