// binary_crossentropy, from logits x or from probabilities p (clipped to [1e-7, 1 − 1e-7]); the
// mean over the last dimension.
//
//   logits          max(x, 0) − x z + log(1 + exp(−|x|))
//   probabilities   −(z log p + (1 − z) log(1 − p))

#include "ops/register.h"
#include "ops/training/sample_loss.h"

namespace plimsoll::ops {

void register_binary_crossentropy(OpRegistry& registry) {
  add_sample_loss(registry, "binary_crossentropy_logits", "binary_crossentropy_logits_grad",
                  TargetKind::kDense, 24.0);
  add_sample_loss(registry, "binary_crossentropy", "binary_crossentropy_grad", TargetKind::kDense,
                  24.0);
}

}  // namespace plimsoll::ops
