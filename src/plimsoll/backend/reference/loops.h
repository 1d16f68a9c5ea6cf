#pragma once

// Loops over operands of any strides.
//
// for_each_run hands out stretches that lie side by side in all operands; for_each_index visits
// positions one by one. Both go in row-major order and allocate nothing.

#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "backend/kernel/kernel.h"

// Loops that gcc makes vectors of at -O3 only; clang does at -O2.
#if defined(__clang__)
#define PLIMSOLL_VECTOR_LOOP
#else
#define PLIMSOLL_VECTOR_LOOP __attribute__((optimize("O3")))
#endif

namespace plimsoll::backend::reference {

inline constexpr size_t kMaxRank = 16;  // graph text has no more

template <typename T>
T* data_of(const Operand& operand) {
  return reinterpret_cast<T*>(operand.data);
}

using Strides = std::span<const int64_t>;
template <size_t N>
using Offsets = std::array<int64_t, N>;

// body(offsets, position): every position of a box, with each operand's offset in elements.
template <size_t N, typename Body>
void for_each_index(std::span<const int64_t> dims, const std::array<Strides, N>& strides,
                    Body body) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  std::array<int64_t, kMaxRank> index{};
  Offsets<N> offsets{};
  for (int64_t position = 0; position < count; ++position) {
    body(std::as_const(offsets), position);
    for (size_t d = dims.size(); d-- > 0;) {
      for (size_t k = 0; k < N; ++k) offsets[k] += strides[k][d];
      if (++index[d] < dims[d]) break;
      for (size_t k = 0; k < N; ++k) offsets[k] -= strides[k][d] * dims[d];
      index[d] = 0;
    }
  }
}

// body(offsets, position of the first element, elements).
template <size_t N, typename Body>
void for_each_run(std::span<const int64_t> dims, const std::array<Strides, N>& strides, Body body) {
  int64_t run = 1;
  size_t outer = dims.size();
  const auto joined = [&](size_t d) {
    if (dims[d] == 1) return true;
    for (size_t k = 0; k < N; ++k) {
      if (strides[k][d] != run) return false;
    }
    return true;
  };
  while (outer > 0 && joined(outer - 1)) run *= dims[--outer];
  if (run == 0) return;
  for_each_index<N>(dims.first(outer), strides, [&](const Offsets<N>& offsets, int64_t position) {
    body(offsets, position * run, run);
  });
}

// y = f(a, b) for each element of operands with the same dimensions.
template <typename T, typename F>
void for_each_pair(const Operand& a, const Operand& b, const Operand& y, F f) {
  for_each_run<3>(a.dims, {a.strides, b.strides, y.strides},
                  [&](const auto& at, int64_t, int64_t count) {
                    const T* left = data_of<const T>(a) + at[0];
                    const T* right = data_of<const T>(b) + at[1];
                    T* out = data_of<T>(y) + at[2];
                    for (int64_t i = 0; i < count; ++i) out[i] = f(left[i], right[i]);
                  });
}

inline int64_t count_of(const Operand& operand) {
  int64_t count = 1;
  for (int64_t dim : operand.dims) count *= dim;
  return count;
}

// Dimensions without the last: positions of rows.
inline std::span<const int64_t> row_dims(const Operand& operand) {
  return operand.dims.first(operand.dims.size() - 1);
}
inline int64_t row_length(const Operand& operand) { return operand.dims.back(); }

// Adds a block's sum to an accumulator, or stores the first.
template <typename T>
void fold(T& accumulator, double sum, bool first) {
  const T rounded = static_cast<T>(sum);
  accumulator = first ? rounded : accumulator + rounded;
}

template <typename T>
double square(T x) {
  return static_cast<double>(x) * static_cast<double>(x);
}

}  // namespace plimsoll::backend::reference
