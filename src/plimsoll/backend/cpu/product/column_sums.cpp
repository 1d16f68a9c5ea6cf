#include "backend/cpu/product/column_sums.h"

#include "backend/cpu/threads/threads.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/product/column_sums_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {
// Columns are shared out in whole cache lines of floats.
constexpr int64_t kGrain = 16;
}  // namespace

ColumnSums::ColumnSums(int64_t rows, int64_t columns, Isa isa, int most_parts)
    : rows_(rows),
      columns_(columns),
      parts_(parts_for(rows * columns * static_cast<int64_t>(sizeof(float)), most_parts)),
      loop_(PLIMSOLL_PICK(isa, column_sums<float>)),
      bf16_loop_(PLIMSOLL_PICK(isa, column_sums<uint16_t>)) {}

template <typename T>
void ColumnSums::run_loop(Loop<T> loop, const T* values, float* sums, bool add) const noexcept {
  for_each_range(columns_, kGrain, parts_, [&](int64_t begin, int64_t end) {
    loop(values, rows_, columns_, begin, end, sums, add);
  });
}

void ColumnSums::run(const float* values, float* sums, bool add) const noexcept {
  run_loop(loop_, values, sums, add);
}

void ColumnSums::run(const uint16_t* values, float* sums, bool add) const noexcept {
  run_loop(bf16_loop_, values, sums, add);
}

}  // namespace plimsoll::backend::cpu
