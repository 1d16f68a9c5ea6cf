#pragma once

// dense and its two gradients as matrix products of the vendor, float32, with AVX-512.
//
// Rows are all positions of all samples in the call. Weights stay plain: the product reads them
// within a few percent as fast, and packing would cost a pass over them in every step. The weight
// gradient is added by the primitive itself (a sum post-op); the first block is stored by a second
// primitive.
//
// Threads share a call's work, each with products for one thread: rows of y and dx, and rows of dw,
// that is columns of x, which are copied together first (the vendor's fast products want dense
// operands). What is summed over is never cut.
//
// Where a block is cut along the units, operands are copied to dense rows in scratch first and
// results back afterwards, so that the bits do not depend on how wide the buffers around are.
//
//   scratch  [primitive] [columns of x] a share, [w, or dw] [y, or dy] where the units are cut
//
// A single unit is no matrix product; cpu/few_units has it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/product/dense_shape.h"
#include "backend/onednn/primitive_cache.h"

namespace plimsoll::backend::onednn {

using Dense = cpu::DenseShape;
using cpu::DenseKind;

// nullopt: another operator, no more than `own_units` units that are not cut (our own kernels
// compute those), or what others compute (bfloat16: cpu/packed_dense.cpp, or widened; float64: the
// reference).
std::optional<Dense> read_dense(const cpu::NodeFacts& facts, int64_t own_units);

class DenseLayers {
 public:
  DenseLayers(PrimitiveCache& cache, int most_parts) : cache_(cache), most_parts_(most_parts) {}

  Bytes scratch(const Dense& dense) const;
  // Its primitives.
  std::vector<PrimitiveUse> uses(const Dense& dense) const;
  // `request` tells the strides of what is cut.
  std::unique_ptr<Kernel> make(const Dense& dense, const KernelRequest& request,
                               cpu::Isa isa) const;

 private:
  // One for each share of a call.
  using AllCompiled = std::vector<std::shared_ptr<Compiled>>;
  AllCompiled compiled(const Dense& dense, bool add) const;
  Bytes primitive_scratch(const Dense& dense) const;
  Bytes share_scratch(const Dense& dense) const;

  PrimitiveCache& cache_;
  int most_parts_;
};

}  // namespace plimsoll::backend::onednn
