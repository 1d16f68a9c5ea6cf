#pragma once

// The gradient of a kernel of single points where it is small: few channels and few filters over
// many positions, as the convolutions between depthwise ones have. Both factors are read where they
// lie, whole rows of them, once from memory: copies to panels would take as long as the products.
//
// Threads share out positions, each with sums of its own, which are added in the order of parts. An
// element of a part is the sum of chunks of 128 positions in order, each one chain of
// multiply-adds.

#include <cstdint>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/product/dense_shape.h"

namespace plimsoll::backend::cpu {

// sums[r][c] (+)= Σ_k x[k][r] · dy[k][c], all three dense.
struct SmallSums {
  const float* x = nullptr;
  const float* dy = nullptr;
  int64_t steps = 0, rows = 0, columns = 0;
  float* sums = nullptr;
  bool add = false;  // to what is there
};

class SmallGradient {
 public:
  SmallGradient(const DenseShape& shape, const CpuOptions& options);
  // Holds the sums of all parts but the first.
  Bytes scratch() const;
  void run(const KernelCall& call) const noexcept;

 private:
  int64_t steps_, rows_, columns_;
  int parts_;
  void (*loop_)(const SmallSums&);
};

// Whether it is the faster one for a gradient of float32 that is not cut.
bool is_small_gradient(const DenseShape& shape);

}  // namespace plimsoll::backend::cpu
