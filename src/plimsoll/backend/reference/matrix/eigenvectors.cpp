// Eigenvectors of the matrices of samples, in double; each result is rounded once. The steps that
// decide signs are those of Eigen's SelfAdjointEigenSolver with float32's bounds, as TensorFlow has
// them: reflections make three diagonals of the matrix, the QR iteration one. Small rotations from
// there to double's precision change no sign. Where float32's rounding decides a sign there, it may
// be another here (ops/matrix/directions.cpp).

#include <cmath>
#include <limits>

#include "backend/reference/matrix/reflections.h"
#include "backend/reference/matrix/rotations.h"

namespace plimsoll::backend::reference {
namespace {

// A symmetric matrix made three diagonals by reflections, Q A' Qᵀ.
void make_tridiagonal(const Matrix& a, const Matrix& q, double* vector) {
  const int64_t n = a.rows;
  make_identity(q);
  for (int64_t k = 0; k + 2 < n; ++k) {
    const double factor = reflect_column<float>(a, k, k + 1);
    if (factor == 0) continue;
    vector[k + 1] = 1;
    for (int64_t i = k + 2; i < n; ++i) {
      vector[i] = a.at(i, k);
      a.at(i, k) = 0;
    }
    const auto reflect_rows = [&](const Matrix& of, int64_t from) {
      for (int64_t i = from; i < n; ++i) {
        double sum = 0;
        for (int64_t j = k + 1; j < n; ++j) sum += of.at(i, j) * vector[j];
        for (int64_t j = k + 1; j < n; ++j) of.at(i, j) -= factor * sum * vector[j];
      }
    };
    for (int64_t j = k + 1; j < n; ++j) {
      double sum = 0;
      for (int64_t i = k + 1; i < n; ++i) sum += vector[i] * a.at(i, j);
      for (int64_t i = k + 1; i < n; ++i) a.at(i, j) -= factor * sum * vector[i];
    }
    reflect_rows(a, k + 1);
    reflect_rows(q, 0);
  }
}

// Makes (length, 0) of (p, q).
Rotation givens(double p, double q) {
  if (q == 0) return {p < 0 ? -1.0 : 1.0, 0};
  if (p == 0) return {0, q < 0 ? 1.0 : -1.0};
  if (std::abs(p) > std::abs(q)) {
    const double ratio = q / p;
    const double cosine = std::copysign(1 / std::sqrt(1 + square(ratio)), p);
    return {cosine, -ratio * cosine};
  }
  const double ratio = p / q;
  const double sine = -std::copysign(1 / std::sqrt(1 + square(ratio)), q);
  return {-ratio * sine, sine};
}

// The diagonal and the one below it, while the latter becomes 0.
struct Tridiagonal {
  double* diagonal = nullptr;
  double* below = nullptr;
};

// Wilkinson's: an eigenvalue of the last two rows.
double shift_of(const Tridiagonal& t, int64_t end) {
  const double half = (t.diagonal[end - 1] - t.diagonal[end]) * 0.5;
  const double e = t.below[end - 1];
  if (half == 0) return t.diagonal[end] - std::abs(e);
  const double length = std::hypot(half, e);
  return t.diagonal[end] - e / ((half + (half > 0 ? length : -length)) / e);
}

// One step of the QR iteration on rows start to end.
void iterate(const Tridiagonal& t, int64_t start, int64_t end, const Matrix& q) {
  double x = t.diagonal[start] - shift_of(t, end);
  double z = t.below[start];
  for (int64_t k = start; k < end && z != 0; ++k) {
    const Rotation by = givens(x, z);
    const auto [c, s] = by;
    const double head = t.diagonal[k];
    const double e = t.below[k];
    const double next = t.diagonal[k + 1];
    const double sdk = s * head + c * e;
    const double rest = s * e + c * next;
    t.diagonal[k] = c * (c * head - s * e) - s * (c * e - s * next);
    t.diagonal[k + 1] = s * sdk + c * rest;
    t.below[k] = c * sdk - s * rest;
    if (k > start) t.below[k - 1] = c * t.below[k - 1] - s * z;
    x = t.below[k];
    if (k < end - 1) {
      z = -s * t.below[k + 1];
      t.below[k + 1] = c * t.below[k + 1];
    }
    rotate_columns(q, k, k + 1, by);
  }
}

// Iterates until what is below the diagonal is 0 by float32; the values are not in order.
void find_values(const Tridiagonal& t, const Matrix& q) {
  constexpr double kPrecision = std::numeric_limits<float>::epsilon();
  int64_t start = 0;
  int64_t end = q.rows - 1;
  for (int64_t steps = 0; end > 0 && steps < kMostSweeps * q.rows; ++steps) {
    for (int64_t i = start; i < end; ++i) {
      const double size = std::abs(t.below[i]);
      const double beside = std::abs(t.diagonal[i]) + std::abs(t.diagonal[i + 1]);
      if (size < kLeast || square(size / kPrecision) <= beside) t.below[i] = 0;
    }
    while (end > 0 && t.below[end - 1] == 0) --end;
    if (end == 0) break;
    start = end - 1;
    while (start > 0 && t.below[start - 1] != 0) --start;
    iterate(t, start, end, q);
  }
}

// The smallest first, each with its column.
void sort_values(double* values, const Matrix& q) {
  for (int64_t i = 0; i + 1 < q.rows; ++i) {
    const int64_t least = std::min_element(values + i, values + q.rows) - values;
    if (least == i) continue;
    std::swap(values[i], values[least]);
    swap_columns(q, i, least);
  }
}

// Makes an almost diagonal matrix Bᵀ = B diagonal by small rotations, with which the columns of q
// go.
void finish_values(const Matrix& b, const Matrix& q) {
  bool moved = true;
  for (int sweep = 0; moved && sweep < kMostSweeps; ++sweep) {
    moved = false;
    for (int64_t i = 0; i < b.rows; ++i) {
      for (int64_t j = i + 1; j < b.rows; ++j) {
        if (std::abs(b.at(i, j)) <= std::numeric_limits<double>::epsilon()) continue;
        moved = true;
        const Rotation by = rotation_of(b.at(i, i), b.at(i, j), b.at(j, j));
        rotate_rows(b, i, j, by.back());
        rotate_columns(b, i, j, by);
        rotate_columns(q, i, j, by);
      }
    }
  }
}

// Four square matrices and three rows.
Bytes eigen_scratch(const Problem& problem) {
  const int64_t n = problem.inputs[0].shape[1].count;
  return Bytes(8) * (4 * n * n + 3 * n);
}

// The eigenvalues and vectors of a symmetric matrix whose largest number is at most 1.
void find_eigenvectors(const Matrix& a, const Matrix& v, double* scratch, double* values) {
  const int64_t n = a.rows;
  const Matrix work{scratch, n, n};
  const Matrix inner{scratch + n * n, n, n};
  const Tridiagonal t{values, scratch + 2 * n * n};
  std::copy_n(a.numbers, n * n, work.numbers);
  make_tridiagonal(work, v, t.below + n);
  for (int64_t i = 0; i < n; ++i) t.diagonal[i] = work.at(i, i);
  for (int64_t i = 0; i + 1 < n; ++i) t.below[i] = work.at(i + 1, i);
  find_values(t, v);
  sort_values(values, v);
  multiply(a, false, v, false, work);
  multiply(v, true, work, false, inner);
  finish_values(inner, v);
  for (int64_t i = 0; i < n; ++i) values[i] = inner.at(i, i);
  sort_values(values, v);
}

std::unique_ptr<Kernel> make_eigenvectors(const Problem& problem) {
  return for_each_matrix(problem,
                         [](auto zero, const KernelCall& call, int64_t sample, double* scratch) {
                           using T = decltype(zero);
                           const int64_t n = call.inputs[0].dims[1];
                           const Matrix a{scratch, n, n};
                           const Matrix v{scratch + n * n, n, n};
                           double* const values = scratch + 4 * n * n + 2 * n;
                           load<T>(call.inputs[0], sample, a);
                           for (int64_t i = 0; i < n; ++i) {
                             for (int64_t j = i + 1; j < n; ++j) a.at(i, j) = a.at(j, i);
                           }
                           double scale = largest(a);
                           if (scale == 0) scale = 1;
                           if (std::isfinite(scale)) {
                             divide_by(a, scale);
                             find_eigenvectors(a, v, scratch + 2 * n * n, values);
                           } else {
                             std::fill_n(v.numbers, n * n, kNone);
                             std::fill_n(values, n, kNone);
                           }
                           store_values<T>(values, n, scale, call.outputs[0], sample);
                           if (call.outputs[1].data != nullptr)
                             store<T>(v, call.outputs[1], sample);
                         });
}

// Three square matrices and two rows.
Bytes eigen_grad_scratch(const Problem& problem) {
  const int64_t n = problem.inputs[3].shape[1].count;
  return Bytes(8) * (3 * n * n + 2 * n);
}

// (de, dV, e, V): V (diag(de) + F ∘ Vᵀ dV) Vᵀ with F(i, j) = 1 / (e(j) − e(i)); of it and its
// transpose the sum, of which the lower triangle was read.
std::unique_ptr<Kernel> make_eigenvectors_grad(const Problem& problem) {
  return for_each_matrix(problem,
                         [](auto zero, const KernelCall& call, int64_t sample, double* scratch) {
                           using T = decltype(zero);
                           const int64_t n = call.inputs[3].dims[1];
                           const Matrix v{scratch, n, n};
                           const Matrix other{scratch + n * n, n, n};
                           const Matrix inner{scratch + 2 * n * n, n, n};
                           double* const de = scratch + 3 * n * n;
                           double* const e = de + n;
                           load_values<T>(call.inputs[0], sample, n, de);
                           load_values<T>(call.inputs[2], sample, n, e);
                           load<T>(call.inputs[1], sample, other);
                           load<T>(call.inputs[3], sample, v);
                           multiply(v, true, other, false, inner);
                           for (int64_t i = 0; i < n; ++i) {
                             for (int64_t j = 0; j < n; ++j)
                               inner.at(i, j) *= safe_reciprocal(e[j] - e[i]);
                             inner.at(i, i) = de[i];
                           }
                           multiply(v, false, inner, false, other);
                           multiply(other, false, v, true, inner);
                           for (int64_t i = 0; i < n; ++i) {
                             for (int64_t j = 0; j < i; ++j) inner.at(i, j) += inner.at(j, i);
                           }
                           for (int64_t i = 0; i < n; ++i)
                             std::fill(inner.row(i) + i + 1, inner.row(i) + n, 0.0);
                           store<T>(inner, call.outputs[0], sample);
                         });
}

constexpr KernelEntry kEntries[] = {
    {"eigenvectors", make_eigenvectors, eigen_scratch},
    {"eigenvectors_grad", make_eigenvectors_grad, eigen_grad_scratch},
};

}  // namespace

std::span<const KernelEntry> eigenvector_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
