// Keras's further losses on dense targets, a value per row over the last dimension. n: its length;
// p: prediction; t: target; epsilon = 1e-7.
//
//   mean_absolute_percentage_error   100 mean |(t − p) / max(|t|, epsilon)|
//   mean_squared_logarithmic_error   mean (log(max(p, epsilon) + 1) − log(max(t, epsilon) + 1))²
//   huber {delta}                    mean of ½ e² up to |e| = delta, delta |e| − ½ delta² beyond
//   log_cosh                         mean log cosh(p − t)
//   hinge, squared_hinge             mean max(1 − t p, 0), and of its square; labels 0 count as −1
//   categorical_hinge                max(max((1 − t) p) − Σ t p + 1, 0)
//   kl_divergence                    Σ t log(t / p), both clipped to [epsilon, 1]
//   poisson                          mean p − t log(p + epsilon)
//   cosine_similarity                −Σ of both divided by their norms
//   binary_focal_crossentropy {gamma, alpha, apply_class_balancing}
//                                    mean (1 − p_t)^gamma · binary cross-entropy, p_t = t p + (1 −
//                                    t) (1 − p); balanced: weighted t alpha + (1 − t)(1 − alpha)
//   binary_focal_crossentropy_logits the same of p = sigmoid(x)
//   categorical_focal_crossentropy {gamma, alpha}
//                                    Σ −t log(q) alpha (1 − q)^gamma, q = p / Σ p clipped
//
// Keras turns hinge labels 0 and 1 into −1 and 1 where a whole batch has no other; here each 0
// becomes −1, which is the same for labels that are all 0 and 1, or all −1 and 1.

#include "ops/register.h"
#include "ops/training/sample_loss.h"

namespace plimsoll::ops {

void register_dense_loss(OpRegistry& registry) {
  const auto add = [&](std::string_view name, std::string_view grad, double flops,
                       std::vector<std::string_view> numbers = {}) {
    add_sample_loss(registry, name, grad, TargetKind::kDense, flops, std::move(numbers));
  };
  add("mean_absolute_percentage_error", "mean_absolute_percentage_error_grad", 5);
  add("mean_squared_logarithmic_error", "mean_squared_logarithmic_error_grad", 40);
  add("huber", "huber_grad", 6, {"delta"});
  add("log_cosh", "log_cosh_grad", 40);
  add("hinge", "hinge_grad", 4);
  add("squared_hinge", "squared_hinge_grad", 5);
  add("categorical_hinge", "categorical_hinge_grad", 5);
  add("kl_divergence", "kl_divergence_grad", 25);
  add("poisson", "poisson_grad", 25);
  add("cosine_similarity", "cosine_similarity_grad", 8);
  add("binary_focal_crossentropy", "binary_focal_crossentropy_grad", 80, {"alpha", "gamma"});
  add("binary_focal_crossentropy_logits", "binary_focal_crossentropy_logits_grad", 80,
      {"alpha", "gamma"});
  add("categorical_focal_crossentropy", "categorical_focal_crossentropy_grad", 60,
      {"alpha", "gamma"});
}

}  // namespace plimsoll::ops
