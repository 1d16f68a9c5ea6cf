// Stochastic gradient descent.
//
//   sgd            w − lr g
//   sgd_momentum   m' = m · momentum − g · lr;  w + m', or with nesterov w + (m' · momentum − g ·
//   lr)
//
// A weight_decay first takes w · weight_decay · lr off the weight.

#include "ops/register.h"
#include "ops/training/optimizer_op.h"

namespace plimsoll::ops {
namespace {

class Sgd final : public OptimizerOp {
 public:
  Sgd() : OptimizerOp("sgd", 0, false) {}

 protected:
  void check_attributes(const NodeTypes&) const override {}
};

class SgdMomentum final : public OptimizerOp {
 public:
  SgdMomentum() : OptimizerOp("sgd_momentum", 1, false) {}

 protected:
  void check_attributes(const NodeTypes& node) const override {
    read_double(node, "momentum", 0.0, 1.0);
    node.attributes.get_bool("nesterov", false);
  }
};

}  // namespace

void register_sgd(OpRegistry& registry) {
  add_op<Sgd>(registry);
  add_op<SgdMomentum>(registry);
}

}  // namespace plimsoll::ops
