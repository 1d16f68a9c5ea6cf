#pragma once

// Rotations of two columns or rows of a matrix in scratch, as Eigen has them: the algorithms that
// are taken from there keep their signs (ops/matrix/directions.cpp).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "backend/reference/matrix_loops.h"

namespace plimsoll::backend::reference {

inline constexpr double kLeast = std::numeric_limits<double>::min();
inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
inline constexpr int kMostSweeps = 60;

struct Rotation {
  double cosine = 1;
  double sine = 0;

  Rotation back() const { return {cosine, -sine}; }
  Rotation operator*(const Rotation& other) const {
    return {cosine * other.cosine - sine * other.sine, cosine * other.sine + sine * other.cosine};
  }
};

// Columns p and q of a, or rows, from the left.
inline void rotate_columns(const Matrix& a, int64_t p, int64_t q, const Rotation& by) {
  for (int64_t i = 0; i < a.rows; ++i) {
    const double left = a.at(i, p);
    const double right = a.at(i, q);
    a.at(i, p) = by.cosine * left - by.sine * right;
    a.at(i, q) = by.sine * left + by.cosine * right;
  }
}

inline void rotate_rows(const Matrix& a, int64_t p, int64_t q, const Rotation& by) {
  for (int64_t j = 0; j < a.columns; ++j) {
    const double upper = a.at(p, j);
    const double lower = a.at(q, j);
    a.at(p, j) = by.cosine * upper + by.sine * lower;
    a.at(q, j) = by.cosine * lower - by.sine * upper;
  }
}

// The rotation, by at most 45 degrees, that makes y of a symmetric matrix ((x, y), (y, z)) 0.
inline Rotation rotation_of(double x, double y, double z) {
  const double divisor = 2 * std::abs(y);
  if (divisor < kLeast) return {};
  const double tau = (x - z) / divisor;
  const double width = std::sqrt(square(tau) + 1);
  const double tangent = 1 / (tau > 0 ? tau + width : tau - width);
  const double cosine = 1 / std::sqrt(square(tangent) + 1);
  return {cosine, (y > 0 ? -tangent : tangent) * cosine};
}

inline void make_identity(const Matrix& a) {
  std::fill_n(a.numbers, a.rows * a.columns, 0.0);
  for (int64_t i = 0; i < std::min(a.rows, a.columns); ++i) a.at(i, i) = 1;
}

inline void swap_columns(const Matrix& a, int64_t p, int64_t q) {
  for (int64_t i = 0; i < a.rows; ++i) std::swap(a.at(i, p), a.at(i, q));
}

inline double largest(const Matrix& a) {
  double most = 0;
  for (int64_t i = 0; i < a.rows * a.columns; ++i) {
    const double size = std::abs(a.numbers[i]);
    if (!std::isfinite(size)) return kNone;
    most = std::max(most, size);
  }
  return most;
}

inline void divide_by(const Matrix& a, double number) {
  for (int64_t i = 0; i < a.rows * a.columns; ++i) a.numbers[i] /= number;
}

template <typename T>
inline void store_values(const double* values, int64_t count, double scale, const Operand& y,
                         int64_t sample) {
  if (y.data == nullptr) return;
  T* const to = data_of<T>(y) + sample * y.strides[0];
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(values[i] * scale);
}

template <typename T>
inline void load_values(const Operand& x, int64_t sample, int64_t count, double* to) {
  const T* const from = data_of<const T>(x) + sample * x.strides[0];
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(from[i]);
}

// 1 / x, and 0 of 0.
inline double safe_reciprocal(double x) { return x / (x * x + 1e-20); }

}  // namespace plimsoll::backend::reference
