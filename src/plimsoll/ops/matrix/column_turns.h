#pragma once

// Factors of samples' matrices that are found by turning pairs of columns.

#include <algorithm>

#include "ops/rules.h"

namespace plimsoll::ops {

class ColumnTurnsOp : public BatchMapOp {
 public:
  using BatchMapOp::BatchMapOp;

  // Some sweeps over all pairs of columns, in the matrix and in what they lead to.
  double flops_per_sample(const NodeTypes& node) const override {
    const Shape& a = node.inputs.back().shape;
    const auto more = static_cast<double>(std::max(a[1].count, a[2].count));
    const auto fewer = static_cast<double>(std::min(a[1].count, a[2].count));
    return 60 * more * fewer * fewer;
  }
};

}  // namespace plimsoll::ops
