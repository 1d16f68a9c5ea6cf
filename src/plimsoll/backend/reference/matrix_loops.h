#pragma once

// The matrices of samples one by one: loaded into scratch in double, and stored from it.

#include <algorithm>
#include <cstdint>
#include <memory>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {

// A matrix in scratch, row by row.
struct Matrix {
  double* numbers = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;

  double& at(int64_t i, int64_t j) const { return numbers[i * columns + j]; }
  double* row(int64_t i) const { return numbers + i * columns; }
  void swap_rows(int64_t a, int64_t b) const {
    if (a != b) std::swap_ranges(row(a), row(a) + columns, row(b));
  }
};

// Matrix `sample` of an operand.
template <typename T>
void load(const Operand& x, int64_t sample, const Matrix& to, bool transposed = false) {
  const T* from = data_of<const T>(x) + sample * x.strides[0];
  for (int64_t i = 0; i < to.rows; ++i) {
    for (int64_t j = 0; j < to.columns; ++j) {
      const int64_t r = transposed ? j : i;
      const int64_t c = transposed ? i : j;
      to.at(i, j) = static_cast<double>(from[r * x.strides[1] + c]);
    }
  }
}

template <typename T>
void store(const Matrix& from, const Operand& y, int64_t sample) {
  T* to = data_of<T>(y) + sample * y.strides[0];
  for (int64_t i = 0; i < from.rows; ++i) {
    for (int64_t j = 0; j < from.columns; ++j) {
      to[i * y.strides[1] + j] = static_cast<T>(from.at(i, j));
    }
  }
}

// y = a b, each transposed where it says so.
inline void multiply(const Matrix& a, bool transposed_a, const Matrix& b, bool transposed_b,
                     const Matrix& y) {
  const int64_t steps = transposed_a ? a.rows : a.columns;
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t j = 0; j < y.columns; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < steps; ++k) {
        sum += (transposed_a ? a.at(k, i) : a.at(i, k)) * (transposed_b ? b.at(j, k) : b.at(k, j));
      }
      y.at(i, j) = sum;
    }
  }
}

// body(T(), call, sample, scratch) for each matrix of a call.
template <typename Body>
std::unique_ptr<Kernel> for_each_matrix(const Problem& problem, Body body) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    return kernel_of([body, zero](const KernelCall& call) {
      auto* scratch = reinterpret_cast<double*>(call.scratch);
      for (int64_t b = 0; b < call.inputs[0].dims[0]; ++b) body(zero, call, b, scratch);
    });
  });
}

}  // namespace plimsoll::backend::reference
