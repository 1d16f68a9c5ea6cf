// Keras 3's further optimizers, t = iterations + 1, epsilon as given:
//
//   adagrad   a' = a + g²;  w' = w − lr g / sqrt(a' + epsilon)
//   adadelta  a' = rho a + (1 − rho) g²;  δ = −sqrt(d + epsilon) g / sqrt(a' + epsilon)
//             d' = rho d + (1 − rho) δ²;  w' = w + lr δ
//   adamax    m' = m + (g − m)(1 − beta_1);  u' = max(beta_2 u, |g|)
//             w' = w − lr m' / ((1 − beta_1^t)(u' + epsilon))
//   nadam     m', v' as Adam's;  u_t = beta_1 (1 − ½ 0.96^t);  U_t = u_1 u_2 … u_t
//             m̂ = u_(t+1) m' / (1 − U_t u_(t+1)) + (1 − u_t) g / (1 − U_t);  v̂ = v' / (1 −
//             beta_2^t) w' = w − m̂ lr / (sqrt(v̂) + epsilon)
//   ftrl      a' = a + g²;  σ = (a'^(−power) − a^(−power)) / lr
//             l' = l + g + 2 shrinkage w − σ w;  q = a'^(−power) / lr + 2 (l2 + beta / (2 lr))
//             w' = (clip(l', −l1, l1) − l') / q
//   lion      w' = w − lr sign(beta_1 m + (1 − beta_1) g);  m' = beta_2 m + (1 − beta_2) g
//   schedule_free_adamw
//             v' = v + (g² − v)(1 − beta_2);  m' = m − lr min(1, t / warmup_steps) g / d
//             d = sqrt(v' / (1 − beta_2^t)) + epsilon;  x = (w − (1 − beta_1) m') / beta_1
//             w' = (1 − beta_1) m' + beta_1 ((1 − 1/t) x + m' / t)
//             (the paper has m in x: Keras on TensorFlow reads its variable after the update)
//
// A last operand beyond these stands for g² (adamax: |g|), in adadelta's δ² too; not in lion.
//
// A weight_decay first takes w · weight_decay · lr off the weight. U_t is computed from t anew, so
// that nothing but the iterations has to be stored (Keras starts it afresh with each process).

#include "ops/register.h"
#include "ops/training/optimizer_op.h"

namespace plimsoll::ops {
namespace {

// An attribute that an update must have, and its range.
struct Number {
  std::string_view key;
  double least = 0;
  double most = 1e30;
};

class AdaptiveOptimizer final : public OptimizerOp {
 public:
  AdaptiveOptimizer(std::string_view name, int slots, bool counts, std::vector<Number> numbers)
      : OptimizerOp(name, slots, counts, name != "lion"), numbers_(std::move(numbers)) {}

 protected:
  void check_attributes(const NodeTypes& node) const override {
    for (const Number& number : numbers_) read_double(node, number.key, number.least, number.most);
  }

 private:
  std::vector<Number> numbers_;
};

}  // namespace

void register_adaptive_optimizers(OpRegistry& registry) {
  const auto add = [&](std::string_view name, int slots, bool counts, std::vector<Number> numbers) {
    add_op<AdaptiveOptimizer>(registry, name, slots, counts, std::move(numbers));
  };
  const Number epsilon{"epsilon"};
  const Number beta_1{"beta_1", 0, 1};
  const Number beta_2{"beta_2", 0, 1};
  add("adagrad", 1, false, {epsilon});
  add("adadelta", 2, false, {{"rho", 0, 1}, epsilon});
  add("adamax", 2, true, {beta_1, beta_2, epsilon});
  add("nadam", 2, true, {beta_1, beta_2, epsilon});
  add("ftrl", 2, false,
      {{"learning_rate_power", -1e30, 0},
       {"l1_regularization_strength"},
       {"l2_regularization_strength"},
       {"l2_shrinkage_regularization_strength"},
       {"beta"}});
  add("lion", 1, false, {beta_1, beta_2});
  add("schedule_free_adamw", 2, true, {beta_1, beta_2, epsilon, {"warmup_steps"}});
}

}  // namespace plimsoll::ops
