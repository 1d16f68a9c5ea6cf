#pragma once

// Householder's reflections of the columns of a matrix in scratch: H = I − factor v vᵀ. The vectors
// lie below the diagonal that they leave; their first element is 1 and lies nowhere.

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/matrix_loops.h"

namespace plimsoll::backend::reference {

// Reflects column k from row `first` downwards onto that row, of what the reflection makes negative
// a positive number and the other way around; the other columns are left alone. Returns the factor.
// As in Eigen, numbers below that row whose squares add up to no more than the smallest normal
// number of T count as 0: nothing is reflected, and the factor is 0.
template <typename T>
double reflect_column(const Matrix& a, int64_t k, int64_t first) {
  double below = 0;
  for (int64_t i = first + 1; i < a.rows; ++i) below += square(a.at(i, k));
  if (below <= std::numeric_limits<T>::min()) return 0;
  const double head = a.at(first, k);
  const double length = std::sqrt(square(head) + below);
  const double diagonal = head >= 0 ? -length : length;
  for (int64_t i = first + 1; i < a.rows; ++i) a.at(i, k) /= head - diagonal;
  a.at(first, k) = diagonal;
  return (diagonal - head) / diagonal;
}

// Reflects column j by the vector of column k.
inline void reflect_by(const Matrix& a, int64_t k, double factor, const Matrix& of, int64_t j) {
  double sum = of.at(k, j);
  for (int64_t i = k + 1; i < a.rows; ++i) sum += a.at(i, k) * of.at(i, j);
  of.at(k, j) -= factor * sum;
  for (int64_t i = k + 1; i < a.rows; ++i) of.at(i, j) -= factor * sum * a.at(i, k);
}

// The first columns of the product of the reflections of all columns.
inline void multiply_reflections(const Matrix& a, const double* factors, const Matrix& q) {
  std::fill_n(q.numbers, q.rows * q.columns, 0.0);
  for (int64_t i = 0; i < q.columns; ++i) q.at(i, i) = 1;
  for (int64_t k = a.columns - 1; k >= 0; --k) {
    for (int64_t j = k; j < q.columns; ++j) reflect_by(a, k, factors[k], q, j);
  }
}

}  // namespace plimsoll::backend::reference
