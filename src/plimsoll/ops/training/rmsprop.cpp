// RMSprop as in Keras 3:
//
//   v' = rho v + (1 − rho) g²;   step = lr g / sqrt(v' + epsilon);   w' = w − step
//   rmsprop_momentum            mom' = momentum · mom + step;  w' = w − mom'
//   rmsprop_centered            mg' = rho mg + (1 − rho) g;  v' − mg'² + epsilon under the root
//   rmsprop_centered_momentum   both
//
// A last operand beyond these stands for g², but where it is centred: the variance might fall below
// 0. A weight_decay first takes w · weight_decay · lr off the weight.

#include "ops/register.h"
#include "ops/training/optimizer_op.h"

namespace plimsoll::ops {
namespace {

class Rmsprop final : public OptimizerOp {
 public:
  Rmsprop(std::string_view name, int slots, bool momentum, bool centered)
      : OptimizerOp(name, slots, false, !centered), momentum_(momentum) {}

 protected:
  void check_attributes(const NodeTypes& node) const override {
    read_double(node, "rho", 0.0, 1.0);
    read_double(node, "epsilon", 0.0, 1e30);
    if (momentum_) read_double(node, "momentum", 0.0, 1.0);
  }

 private:
  bool momentum_;
};

}  // namespace

void register_rmsprop(OpRegistry& registry) {
  add_op<Rmsprop>(registry, "rmsprop", 1, false, false);
  add_op<Rmsprop>(registry, "rmsprop_momentum", 2, true, false);
  add_op<Rmsprop>(registry, "rmsprop_centered", 2, false, true);
  add_op<Rmsprop>(registry, "rmsprop_centered_momentum", 3, true, true);
}

}  // namespace plimsoll::ops
