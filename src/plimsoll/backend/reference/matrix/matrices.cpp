// Factors, inverses, determinants of the matrices of samples, and equations solved with them, in
// double; each result is rounded once.

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/matrix/reflections.h"

namespace plimsoll::backend::reference {
namespace {

// What elimination says of a matrix's determinant.
struct Elimination {
  double sign = 1;
  double log_magnitude = 0;
};

// Makes the square matrix an upper triangle by its rows, and does the same to the rows of `right`
// (null numbers: there is none).
Elimination eliminate(const Matrix& a, const Matrix& right) {
  Elimination done;
  for (int64_t k = 0; k < a.rows; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < a.rows; ++i) {
      if (std::abs(a.at(i, k)) > std::abs(a.at(pivot, k))) pivot = i;
    }
    a.swap_rows(k, pivot);
    if (right.numbers != nullptr) right.swap_rows(k, pivot);
    const double head = a.at(k, k);
    if (pivot != k) done.sign = -done.sign;
    if (head < 0) done.sign = -done.sign;
    if (head == 0) done.sign = 0;
    done.log_magnitude += std::log(std::abs(head));
    if (head == 0) continue;
    for (int64_t i = k + 1; i < a.rows; ++i) {
      const double factor = a.at(i, k) / head;
      if (factor == 0) continue;
      for (int64_t j = k; j < a.columns; ++j) a.at(i, j) -= factor * a.at(k, j);
      if (right.numbers == nullptr) continue;
      for (int64_t j = 0; j < right.columns; ++j) right.at(i, j) -= factor * right.at(k, j);
    }
  }
  return done;
}

// x of U x = right, in place of `right`.
void solve_upper(const Matrix& u, const Matrix& right) {
  for (int64_t i = u.rows - 1; i >= 0; --i) {
    for (int64_t j = 0; j < right.columns; ++j) {
      double sum = right.at(i, j);
      for (int64_t k = i + 1; k < u.columns; ++k) sum -= u.at(i, k) * right.at(k, j);
      right.at(i, j) = sum / u.at(i, i);
    }
  }
}

void solve_lower(const Matrix& l, const Matrix& right) {
  for (int64_t i = 0; i < l.rows; ++i) {
    for (int64_t j = 0; j < right.columns; ++j) {
      double sum = right.at(i, j);
      for (int64_t k = 0; k < i; ++k) sum -= l.at(i, k) * right.at(k, j);
      right.at(i, j) = sum / l.at(i, i);
    }
  }
}

Bytes square_bytes(const Problem& problem, int64_t count) {
  const int64_t n = problem.inputs[0].shape[1].count;
  return Bytes(8) * (n * n * count);
}
Bytes one_square(const Problem& problem) { return square_bytes(problem, 1); }
Bytes two_squares(const Problem& problem) { return square_bytes(problem, 2); }
Bytes three_squares(const Problem& problem) { return square_bytes(problem, 3); }
Bytes square_and_right(const Problem& problem) {
  const Shape& right = problem.inputs[1].shape;
  return square_bytes(problem, 1) + Bytes(8) * (right[1].count * right[2].count);
}

std::unique_ptr<Kernel> make_cholesky(const Problem& problem) {
  return for_each_matrix(problem,
                         [](auto zero, const KernelCall& call, int64_t sample, double* scratch) {
                           using T = decltype(zero);
                           const int64_t n = call.inputs[0].dims[1];
                           const Matrix l{scratch, n, n};
                           load<T>(call.inputs[0], sample, l);
                           bool definite = true;
                           for (int64_t j = 0; j < n; ++j) {
                             double head = l.at(j, j);
                             for (int64_t k = 0; k < j; ++k) head -= square(l.at(j, k));
                             definite = definite && head > 0;
                             const double root = std::sqrt(head);
                             for (int64_t i = j; i < n; ++i) {
                               double sum = l.at(i, j);
                               for (int64_t k = 0; k < j; ++k) sum -= l.at(i, k) * l.at(j, k);
                               l.at(i, j) = i == j ? root : sum / root;
                             }
                             for (int64_t i = 0; i < j; ++i) l.at(i, j) = 0;
                           }
                           if (!definite)
                             std::fill_n(scratch, n * n, std::numeric_limits<double>::quiet_NaN());
                           store<T>(l, call.outputs[0], sample);
                         });
}

// P = Φ(Lᵀ dL), the lower triangle with half of the diagonal; S = L⁻ᵀ P L⁻¹; dA = (S + Sᵀ) / 2
std::unique_ptr<Kernel> make_cholesky_grad(const Problem& problem) {
  return for_each_matrix(problem,
                         [](auto zero, const KernelCall& call, int64_t sample, double* scratch) {
                           using T = decltype(zero);
                           const int64_t n = call.inputs[0].dims[1];
                           const Matrix d{scratch, n, n};
                           const Matrix transposed{scratch + n * n, n, n};
                           const Matrix p{scratch + 2 * n * n, n, n};
                           load<T>(call.inputs[0], sample, d);
                           load<T>(call.inputs[1], sample, transposed, true);
                           for (int64_t i = 0; i < n; ++i) {
                             for (int64_t j = 0; j < n; ++j) {
                               double sum = 0;
                               for (int64_t k = i; k < n; ++k)
                                 sum += transposed.at(i, k) * (k >= j ? d.at(k, j) : 0.0);
                               p.at(i, j) = i < j ? 0.0 : i == j ? sum / 2 : sum;
                             }
                           }
                           solve_upper(transposed, p);  // L⁻ᵀ P
                           for (int64_t i = 0; i < n; ++i) {
                             for (int64_t j = 0; j < n; ++j) d.at(i, j) = p.at(j, i);
                           }
                           solve_upper(transposed, d);  // (S)ᵀ
                           for (int64_t i = 0; i < n; ++i) {
                             for (int64_t j = 0; j < n; ++j)
                               p.at(i, j) = (d.at(i, j) + d.at(j, i)) / 2;
                           }
                           store<T>(p, call.outputs[0], sample);
                         });
}

std::unique_ptr<Kernel> make_determinant(const Problem& problem) {
  return for_each_matrix(
      problem, [](auto zero, const KernelCall& call, int64_t sample, double* scratch) {
        using T = decltype(zero);
        const int64_t n = call.inputs[0].dims[1];
        const Matrix a{scratch, n, n};
        load<T>(call.inputs[0], sample, a);
        const Elimination found = eliminate(a, {});
        double value = found.sign < 0 ? -1 : 1;
        for (int64_t i = 0; i < n; ++i) value *= std::abs(a.at(i, i));
        data_of<T>(call.outputs[0])[sample * call.outputs[0].strides[0]] = static_cast<T>(value);
      });
}

std::unique_ptr<Kernel> make_log_determinant(const Problem& problem) {
  return for_each_matrix(problem,
                         [](auto zero, const KernelCall& call, int64_t sample, double* scratch) {
                           using T = decltype(zero);
                           const int64_t n = call.inputs[0].dims[1];
                           const Matrix a{scratch, n, n};
                           load<T>(call.inputs[0], sample, a);
                           const Elimination found = eliminate(a, {});
                           const auto put = [&](const Operand& y, double value) {
                             if (y.data != nullptr)
                               data_of<T>(y)[sample * y.strides[0]] = static_cast<T>(value);
                           };
                           put(call.outputs[0], found.sign);
                           put(call.outputs[1], found.log_magnitude);
                         });
}

std::unique_ptr<Kernel> make_inverse(const Problem& problem) {
  return for_each_matrix(problem,
                         [](auto zero, const KernelCall& call, int64_t sample, double* scratch) {
                           using T = decltype(zero);
                           const int64_t n = call.inputs[0].dims[1];
                           const Matrix a{scratch, n, n};
                           const Matrix y{scratch + n * n, n, n};
                           load<T>(call.inputs[0], sample, a);
                           std::fill_n(y.numbers, n * n, 0.0);
                           for (int64_t i = 0; i < n; ++i) y.at(i, i) = 1;
                           eliminate(a, y);
                           solve_upper(a, y);
                           store<T>(y, call.outputs[0], sample);
                         });
}

// The matrix and Q, high as the matrix, and the factor of each reflection.
Bytes qr_scratch(const Problem& problem) {
  const Shape& a = problem.inputs[0].shape;
  return Bytes(8) * (2 * a[1].count * a[2].count + a[2].count);
}

// Makes the matrix a triangle, and below it the vectors of the reflections.
template <typename T>
void reflect(const Matrix& a, double* factors) {
  for (int64_t k = 0; k < a.columns; ++k) {
    factors[k] = reflect_column<T>(a, k, k);
    if (factors[k] == 0) continue;
    for (int64_t j = k + 1; j < a.columns; ++j) reflect_by(a, k, factors[k], a, j);
  }
}

std::unique_ptr<Kernel> make_qr(const Problem& problem) {
  return for_each_matrix(problem,
                         [](auto zero, const KernelCall& call, int64_t sample, double* scratch) {
                           using T = decltype(zero);
                           const int64_t rows = call.inputs[0].dims[1];
                           const int64_t columns = call.inputs[0].dims[2];
                           const Matrix a{scratch, rows, columns};
                           const Matrix q{scratch + rows * columns, rows, columns};
                           double* factors = scratch + 2 * rows * columns;
                           load<T>(call.inputs[0], sample, a);
                           reflect<T>(a, factors);
                           if (call.outputs[0].data != nullptr) {
                             multiply_reflections(a, factors, q);
                             store<T>(q, call.outputs[0], sample);
                           }
                           if (call.outputs[1].data == nullptr) return;
                           for (int64_t i = 1; i < columns; ++i) std::fill_n(a.row(i), i, 0.0);
                           store<T>({a.numbers, columns, columns}, call.outputs[1], sample);
                         });
}

std::unique_ptr<Kernel> make_solve(const Problem& problem) {
  const bool transposed = problem.attributes.get_bool("transposed", false);
  const std::string triangle = problem.attributes.get_string("triangle", "none");
  const bool whole = triangle == "none";
  // The transpose of a lower triangle is an upper one.
  const bool upper = (triangle == "upper") != transposed;
  return for_each_matrix(problem, [transposed, whole, upper](auto zero, const KernelCall& call,
                                                             int64_t sample, double* scratch) {
    using T = decltype(zero);
    const int64_t n = call.inputs[0].dims[1];
    const Matrix a{scratch, n, n};
    const Matrix x{scratch + n * n, n, call.inputs[1].dims[2]};
    load<T>(call.inputs[0], sample, a, transposed);
    load<T>(call.inputs[1], sample, x);
    if (whole) eliminate(a, x);
    if (whole || upper) {
      solve_upper(a, x);
    } else {
      solve_lower(a, x);
    }
    store<T>(x, call.outputs[0], sample);
  });
}

std::unique_ptr<Kernel> make_triangle(const Problem& problem) {
  const bool lower = problem.attributes.get_string("of", "lower") == "lower";
  return for_each_matrix(
      problem, [lower](auto zero, const KernelCall& call, int64_t sample, double*) {
        using T = decltype(zero);
        const Operand& x = call.inputs[0];
        const Operand& y = call.outputs[0];
        for (int64_t i = 0; i < x.dims[1]; ++i) {
          const T* in = data_of<const T>(x) + sample * x.strides[0] + i * x.strides[1];
          T* out = data_of<T>(y) + sample * y.strides[0] + i * y.strides[1];
          for (int64_t j = 0; j < x.dims[2]; ++j) {
            const bool inside = lower ? j <= i : j >= i;
            out[j] = inside ? in[j] : T(0);
          }
        }
      });
}

constexpr KernelEntry kEntries[] = {
    {"cholesky", make_cholesky, one_square},
    {"cholesky_grad", make_cholesky_grad, three_squares},
    {"determinant", make_determinant, one_square},
    {"inverse", make_inverse, two_squares},
    {"log_determinant", make_log_determinant, one_square},
    {"qr", make_qr, qr_scratch},
    {"solve", make_solve, square_and_right},
    {"triangle", make_triangle},
};

}  // namespace

std::span<const KernelEntry> matrix_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
