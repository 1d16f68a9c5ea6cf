#pragma once

// What optimizer updates have in common: (w, g, slots…, learning rate, …) → (w', slots'…).
//
// Weight, gradient and slots are of one type; each output may take the memory of its input, which
// is what makes an update free of extra memory. The learning rate is a scalar of the weight's
// dtype, the counter of iterations an int64 scalar. Arithmetic is Keras 3's, in the element type.

#include "ops/rules.h"

namespace plimsoll::ops {

class OptimizerOp : public NamedOp {
 public:
  // Operands: w, g, `slots` slots, the learning rate, and the iterations where `counts`; where
  // `squares`, perhaps what stands for g² (adamax: |g|) after them: of a table's rows that were
  // read several times it is the sum over the reads.
  OptimizerOp(std::string_view name, int slots, bool counts, bool squares = false)
      : NamedOp(name), slots_(slots), counts_(counts), squares_(squares) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override;
  std::vector<graph::Axis> axes(const NodeTypes& node) const override;
  std::vector<Alias> aliases(const NodeTypes& node) const override;
  OpTraits traits() const override { return {.elementwise = true}; }
  double flops_per_sample(const NodeTypes& node) const override;

 protected:
  virtual void check_attributes(const NodeTypes& node) const = 0;

 private:
  int slots_;
  bool counts_;
  bool squares_;
};

}  // namespace plimsoll::ops
