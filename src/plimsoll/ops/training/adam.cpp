// Adam and AdamW as in Keras 3, t = iterations + 1:
//
//   alpha = lr · sqrt(1 − beta_2^t) / (1 − beta_1^t)
//   m' = m + (g − m)(1 − beta_1);   v' = v + (g² − v)(1 − beta_2)
//   w' = w − m' · alpha / (sqrt(v') + epsilon)          (adam_amsgrad: the largest v' so far)
//
// A weight_decay first takes w · weight_decay · lr off the weight.

#include "ops/register.h"
#include "ops/training/optimizer_op.h"

namespace plimsoll::ops {
namespace {

class Adam final : public OptimizerOp {
 public:
  Adam(std::string_view name, int slots) : OptimizerOp(name, slots, true) {}

 protected:
  void check_attributes(const NodeTypes& node) const override {
    read_double(node, "beta_1", 0.0, 1.0);
    read_double(node, "beta_2", 0.0, 1.0);
    read_double(node, "epsilon", 0.0, 1e30);
  }
};

}  // namespace

void register_adam(OpRegistry& registry) {
  add_op<Adam>(registry, "adam", 2);
  add_op<Adam>(registry, "adam_amsgrad", 3);
}

}  // namespace plimsoll::ops
