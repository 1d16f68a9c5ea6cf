#include "backend/cpu/product/small_gradient.h"

#include <algorithm>

#include "backend/cpu/threads/threads.h"

namespace plimsoll::backend::cpu {
namespace {

// A tile's part of x and dy over a chunk lies in the first cache.
constexpr int64_t kChunkSteps = 128;

}  // namespace
}  // namespace plimsoll::backend::cpu

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/product/small_gradient_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

// Sums of more are not kept by each thread.
constexpr int64_t kMostElements = 8 << 10;
// Fewer positions do not pay for adding the threads' sums.
constexpr int64_t kLeastSteps = 4 * kChunkSteps;
constexpr int64_t kMostElementsAStep = 4;
constexpr int64_t kLeastColumns = 8;
// Sums are added by shares of so many.
constexpr int64_t kSumGrain = 1024;

}  // namespace

SmallGradient::SmallGradient(const DenseShape& shape, const CpuOptions& options)
    : steps_(shape.rows),
      rows_(shape.inner),
      columns_(shape.units),
      parts_(static_cast<int>(std::clamp<int64_t>(shape.rows / kLeastSteps, 1, options.parts))),
      loop_(PLIMSOLL_PICK(options.isa, add_small_sums)) {}

Bytes SmallGradient::scratch() const {
  return Bytes((parts_ - 1) * rows_ * columns_ * static_cast<int64_t>(sizeof(float)));
}

void SmallGradient::run(const KernelCall& call) const noexcept {
  const float* x = input_floats(call, 0);
  const float* dy = input_floats(call, 1);
  float* sums = output_floats(call, 0);
  auto* others = reinterpret_cast<float*>(call.scratch);
  const int64_t count = rows_ * columns_;
  for_each_part(parts_, [&](int part) {
    const Range range = part_of(steps_, kChunkSteps, part, parts_);
    loop_({.x = x + range.begin * rows_,
           .dy = dy + range.begin * columns_,
           .steps = range.end - range.begin,
           .rows = rows_,
           .columns = columns_,
           .sums = part == 0 ? sums : others + (part - 1) * count,
           .add = part == 0 && !call.first});
  });
  if (parts_ == 1) return;
  for_each_range(count, kSumGrain, parts_for(count * parts_ * 4, parts_),
                 [&](int64_t begin, int64_t end) {
                   for (int part = 1; part < parts_; ++part) {
                     const float* from = others + (part - 1) * count;
                     for (int64_t i = begin; i < end; ++i) sums[i] += from[i];
                   }
                 });
}

bool is_small_gradient(const DenseShape& shape) {
  return shape.kind == DenseKind::kGradKernel && !shape.bf16 && !shape.cut() &&
         shape.rows >= kLeastSteps && shape.units >= kLeastColumns &&
         shape.inner * shape.units <= std::min(kMostElements, kMostElementsAStep * shape.rows);
}

}  // namespace plimsoll::backend::cpu
