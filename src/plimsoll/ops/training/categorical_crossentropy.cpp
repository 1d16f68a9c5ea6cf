// Cross-entropy over the last dimension, for one-hot targets t and for class numbers.
//
//   logits                  Σ t (log Σ exp(x − max) − (x − max)); its gradient is softmax(x) − t
//   probabilities, one-hot  −Σ t log clip(p / Σ p)
//   probabilities, sparse   softmax cross-entropy of log clip(p), as Keras does

#include "ops/register.h"
#include "ops/training/sample_loss.h"

namespace plimsoll::ops {

void register_categorical_crossentropy(OpRegistry& registry) {
  add_sample_loss(registry, "categorical_crossentropy_logits",
                  "categorical_crossentropy_logits_grad", TargetKind::kDense, 20.0);
  add_sample_loss(registry, "categorical_crossentropy", "categorical_crossentropy_grad",
                  TargetKind::kDense, 20.0);
  add_sample_loss(registry, "sparse_categorical_crossentropy",
                  "sparse_categorical_crossentropy_grad", TargetKind::kLabels, 36.0);
}

}  // namespace plimsoll::ops
