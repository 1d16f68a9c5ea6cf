// Singular values of the matrices of samples, by rotations of pairs of columns (Hestenes, 1958), in
// double; each result is rounded once.

#include <cmath>
#include <limits>

#include "backend/reference/matrix_loops.h"

namespace plimsoll::backend::reference {
namespace {

// Factors of a matrix that is as high as wide or higher, or of the transpose of one that is wider:
// A = left · rightᵀ. The left one's columns are at right angles, and their lengths are the singular
// values, in no order; the right one is the product of the rotations that led there.
struct Factors {
  Matrix left;
  Matrix right;
  double* lengths = nullptr;
  double* scales = nullptr;  // as many numbers, for what each direction is multiplied by
  bool wide = false;         // they are of the transpose
  bool is_nan = false;       // some length is no number

  int64_t count() const { return left.columns; }
  // Where value `k` stands when the largest is first.
  int64_t rank(int64_t k) const {
    int64_t before = 0;
    for (int64_t j = 0; j < count(); ++j) {
      if (lengths[j] > lengths[k] || (lengths[j] == lengths[k] && j < k)) ++before;
    }
    return before;
  }
};

Bytes scratch_of(const Shape& a) {
  const int64_t columns = std::min(a[1].count, a[2].count);
  return Bytes(8) * (a[1].count * a[2].count + columns * columns + 2 * columns);
}
Bytes first_scratch(const Problem& problem) { return scratch_of(problem.inputs[0].shape); }
Bytes second_scratch(const Problem& problem) { return scratch_of(problem.inputs[1].shape); }

void rotate(const Matrix& a, int64_t p, int64_t q, double cosine, double sine) {
  for (int64_t i = 0; i < a.rows; ++i) {
    const double left = a.at(i, p);
    const double right = a.at(i, q);
    a.at(i, p) = cosine * left - sine * right;
    a.at(i, q) = sine * left + cosine * right;
  }
}

// Puts two columns at right angles; false where they are.
bool part_columns(const Matrix& a, const Matrix& rotation, int64_t p, int64_t q) {
  double left = 0;
  double right = 0;
  double both = 0;
  for (int64_t i = 0; i < a.rows; ++i) {
    left += a.at(i, p) * a.at(i, p);
    right += a.at(i, q) * a.at(i, q);
    both += a.at(i, p) * a.at(i, q);
  }
  const double rounding = std::numeric_limits<double>::epsilon() * static_cast<double>(a.rows);
  const double small = rounding * std::sqrt(left) * std::sqrt(right);
  if (!(std::abs(both) > small)) return false;
  const double zeta = (right - left) / (2 * both);
  const double tangent = std::copysign(1.0, zeta) / (std::abs(zeta) + std::hypot(1.0, zeta));
  const double cosine = 1 / std::hypot(1.0, tangent);
  rotate(a, p, q, cosine, cosine * tangent);
  rotate(rotation, p, q, cosine, cosine * tangent);
  return true;
}

template <typename T>
Factors factors_of(const Operand& x, int64_t sample, double* scratch) {
  constexpr int kMostSweeps = 60;
  const bool wide = x.dims[1] < x.dims[2];
  const int64_t rows = std::max(x.dims[1], x.dims[2]);
  const int64_t columns = std::min(x.dims[1], x.dims[2]);
  Factors made{{scratch, rows, columns}, {scratch + rows * columns, columns, columns}};
  made.lengths = made.right.numbers + columns * columns;
  made.scales = made.lengths + columns;
  made.wide = wide;
  load<T>(x, sample, made.left, wide);
  std::fill_n(made.right.numbers, columns * columns, 0.0);
  for (int64_t k = 0; k < columns; ++k) made.right.at(k, k) = 1;
  bool moved = true;
  for (int sweep = 0; moved && sweep < kMostSweeps; ++sweep) {
    moved = false;
    for (int64_t p = 0; p < columns; ++p) {
      for (int64_t q = p + 1; q < columns; ++q) {
        moved = part_columns(made.left, made.right, p, q) || moved;
      }
    }
  }
  for (int64_t k = 0; k < columns; ++k) {
    double sum = 0;
    for (int64_t i = 0; i < rows; ++i) sum += made.left.at(i, k) * made.left.at(i, k);
    made.lengths[k] = std::sqrt(sum);
    made.is_nan = made.is_nan || !std::isfinite(sum);
  }
  return made;
}

// Σ over k of the scale of k · column k of the one times column k of the other, as a matrix:
// the left factor gives its rows, or its columns.
template <typename T>
void store_sum(const Factors& of, bool left_rows, const Operand& y, int64_t sample) {
  const Matrix& left = left_rows ? of.left : of.right;
  const Matrix& right = left_rows ? of.right : of.left;
  T* const to = data_of<T>(y) + sample * y.strides[0];
  for (int64_t i = 0; i < left.rows; ++i) {
    for (int64_t j = 0; j < right.rows; ++j) {
      double sum = of.is_nan ? std::numeric_limits<double>::quiet_NaN() : 0;
      for (int64_t k = 0; k < of.count(); ++k) sum += of.scales[k] * left.at(i, k) * right.at(j, k);
      to[i * y.strides[1] + j] = static_cast<T>(sum);
    }
  }
}

std::unique_ptr<Kernel> make_singular_values(const Problem& problem) {
  return for_each_matrix(
      problem, [](auto zero, const KernelCall& call, int64_t sample, double* scratch) {
        using T = decltype(zero);
        const Factors a = factors_of<T>(call.inputs[0], sample, scratch);
        T* const to = data_of<T>(call.outputs[0]) + sample * call.outputs[0].strides[0];
        for (int64_t k = 0; k < a.count(); ++k) {
          to[a.is_nan ? k : a.rank(k)] =
              a.is_nan ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(a.lengths[k]);
        }
      });
}

// (ds, A): a value of 0 has no direction, and no gradient here.
std::unique_ptr<Kernel> make_singular_values_grad(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      auto* const scratch = reinterpret_cast<double*>(call.scratch);
      const Operand& ds = call.inputs[0];
      for (int64_t sample = 0; sample < ds.dims[0]; ++sample) {
        const Factors a = factors_of<T>(call.inputs[1], sample, scratch);
        const T* const given = data_of<const T>(ds) + sample * ds.strides[0];
        for (int64_t k = 0; k < a.count(); ++k) {
          const bool none = a.is_nan || a.lengths[k] == 0;
          a.scales[k] = none ? 0 : static_cast<double>(given[a.rank(k)]) / a.lengths[k];
        }
        store_sum<T>(a, !a.wide, call.outputs[0], sample);
      }
    });
  });
}

// V Σ⁻² Wᵀ of A = W Vᵀ, W's columns as long as the singular values.
std::unique_ptr<Kernel> make_pseudo_inverse(const Problem& problem) {
  const double rcond = problem.attributes.get_double("rcond", 0);
  return for_each_matrix(
      problem, [rcond](auto zero, const KernelCall& call, int64_t sample, double* scratch) {
        using T = decltype(zero);
        const Factors a = factors_of<T>(call.inputs[0], sample, scratch);
        const double least = rcond * *std::max_element(a.lengths, a.lengths + a.count());
        for (int64_t k = 0; k < a.count(); ++k) {
          a.scales[k] = a.lengths[k] > least ? 1 / square(a.lengths[k]) : 0;
        }
        store_sum<T>(a, a.wide, call.outputs[0], sample);
      });
}

// Six matrices as large as A, and a small square one.
Bytes inverse_grad_scratch(const Problem& problem) {
  const Shape& a = problem.inputs[1].shape;
  const int64_t columns = std::min(a[1].count, a[2].count);
  return Bytes(8) * (6 * a[1].count * a[2].count + columns * columns);
}

// (dP, A, P). A matrix that is wider than high is transposed, and P and dP with it.
std::unique_ptr<Kernel> make_pseudo_inverse_grad(const Problem& problem) {
  return for_each_matrix(problem,
                         [](auto zero, const KernelCall& call, int64_t sample, double* scratch) {
                           using T = decltype(zero);
                           const Operand& given = call.inputs[1];
                           const bool wide = given.dims[1] < given.dims[2];
                           const int64_t rows = std::max(given.dims[1], given.dims[2]);
                           const int64_t columns = std::min(given.dims[1], given.dims[2]);
                           const auto matrix = [&](int64_t place, int64_t height, int64_t width) {
                             return Matrix{scratch + place * rows * columns, height, width};
                           };
                           const Matrix a = matrix(0, rows, columns);
                           const Matrix p = matrix(1, columns, rows);
                           const Matrix dp = matrix(2, columns, rows);
                           const Matrix left = matrix(3, rows, columns);
                           const Matrix within = matrix(4, rows, columns);
                           const Matrix da = matrix(5, rows, columns);
                           const Matrix inner = matrix(6, columns, columns);
                           load<T>(given, sample, a, wide);
                           load<T>(call.inputs[2], sample, p, wide);
                           load<T>(call.inputs[0], sample, dp, wide);
                           const auto add = [&](double sign, const Matrix& part) {
                             for (int64_t i = 0; i < rows * columns; ++i)
                               da.numbers[i] += sign * part.numbers[i];
                           };
                           std::fill_n(da.numbers, rows * columns, 0.0);
                           multiply(dp, false, p, true, inner);
                           multiply(p, true, inner, false, left);
                           add(-1, left);
                           multiply(p, false, p, true, inner);
                           multiply(dp, true, inner, false, left);
                           multiply(p, false, left, false, inner);
                           multiply(a, false, inner, false, within);
                           add(1, left);
                           add(-1, within);
                           multiply(p, false, dp, true, inner);
                           multiply(p, true, inner, false, left);
                           multiply(p, false, a, false, inner);
                           multiply(left, false, inner, false, within);
                           add(1, left);
                           add(-1, within);
                           if (!wide) return store<T>(da, call.outputs[0], sample);
                           const Matrix transposed = matrix(3, columns, rows);
                           for (int64_t i = 0; i < rows; ++i) {
                             for (int64_t j = 0; j < columns; ++j)
                               transposed.at(j, i) = da.at(i, j);
                           }
                           store<T>(transposed, call.outputs[0], sample);
                         });
}

constexpr KernelEntry kEntries[] = {
    {"pseudo_inverse", make_pseudo_inverse, first_scratch},
    {"pseudo_inverse_grad", make_pseudo_inverse_grad, inverse_grad_scratch},
    {"singular_values", make_singular_values, first_scratch},
    {"singular_values_grad", make_singular_values_grad, second_scratch},
};

}  // namespace

std::span<const KernelEntry> singular_value_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
