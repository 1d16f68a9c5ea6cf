// Singular vectors of the matrices of samples, in double; each result is rounded once. The signs
// are those of Eigen's JacobiSVD, as TensorFlow has them (ops/matrix/directions.cpp).

#include <cmath>
#include <limits>

#include "backend/reference/matrix/reflections.h"
#include "backend/reference/matrix/rotations.h"

namespace plimsoll::backend::reference {
namespace {

// What the columns of a work matrix W lead to: A = U W Vᵀ, W square.
struct Sides {
  Matrix work;
  Matrix u;
  Matrix v;
};

// Q R P of a matrix at least as high as wide, R over it: the column that is the longest is next.
void factor_with_pivots(const Matrix& a, double* factors, const Matrix& places) {
  make_identity(places);
  for (int64_t k = 0; k < a.columns; ++k) {
    int64_t longest = k;
    double most = -1;
    for (int64_t j = k; j < a.columns; ++j) {
      double length = 0;
      for (int64_t i = k; i < a.rows; ++i) length += square(a.at(i, j));
      if (length > most) longest = j;
      most = std::max(most, length);
    }
    if (longest != k) {
      swap_columns(a, k, longest);
      swap_columns(places, k, longest);
    }
    factors[k] = reflect_column<float>(a, k, k);
    for (int64_t j = k + 1; j < a.columns; ++j) reflect_by(a, k, factors[k], a, j);
  }
}

// Rotates pairs of rows and columns until W is diagonal. The rotations from the right pass 45
// degrees never, and become small: the signs of V are told by the first ones, and those of U by
// V's.
void make_diagonal(const Sides& of) {
  const Matrix& w = of.work;
  double most = 0;
  for (int64_t i = 0; i < w.rows; ++i) most = std::max(most, std::abs(w.at(i, i)));
  bool moved = true;
  for (int sweep = 0; moved && sweep < kMostSweeps; ++sweep) {
    moved = false;
    for (int64_t p = 1; p < w.rows; ++p) {
      for (int64_t q = 0; q < p; ++q) {
        const double bound = std::max(kLeast, 2 * std::numeric_limits<double>::epsilon() * most);
        if (std::abs(w.at(p, q)) <= bound && std::abs(w.at(q, p)) <= bound) continue;
        moved = true;
        const double sum = w.at(p, p) + w.at(q, q);
        const double difference = w.at(q, p) - w.at(p, q);
        Rotation first;  // makes the two rows and columns symmetric
        if (std::abs(difference) >= kLeast) {
          const double u = sum / difference;
          const double length = std::sqrt(1 + square(u));
          first = {u / length, 1 / length};
        }
        const auto [c, s] = first;
        const Rotation right =
            rotation_of(c * w.at(p, p) + s * w.at(q, p), c * w.at(p, q) + s * w.at(q, q),
                        c * w.at(q, q) - s * w.at(p, q));
        const Rotation left = first * right.back();
        rotate_rows(w, p, q, left);
        rotate_columns(of.u, p, q, left.back());
        rotate_columns(w, p, q, right);
        rotate_columns(of.v, p, q, right);
        most = std::max({most, std::abs(w.at(p, p)), std::abs(w.at(q, q))});
      }
    }
  }
}

// The matrix, W, U, V, and three rows.
Bytes singular_scratch(const Problem& problem) {
  const int64_t m = problem.inputs[0].shape[1].count;
  const int64_t n = problem.inputs[0].shape[2].count;
  const int64_t k = std::min(m, n);
  return Bytes(8) * (m * n + k * k + m * k + n * k + 2 * k);
}

// Makes W, U and V to begin with, for the matrix (transposed where it is wider than high).
void begin_sides(const Matrix& a, bool wide, double* factors, const Sides& of) {
  const Matrix& high = wide ? of.v : of.u;
  const Matrix& low = wide ? of.u : of.v;
  if (a.rows == a.columns) {
    std::copy_n(a.numbers, a.rows * a.columns, of.work.numbers);
    make_identity(of.u);
    make_identity(of.v);
    return;
  }
  factor_with_pivots(a, factors, low);
  multiply_reflections(a, factors, high);
  for (int64_t i = 0; i < a.columns; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) {
      (wide ? of.work.at(j, i) : of.work.at(i, j)) = j < i ? 0.0 : a.at(i, j);
    }
  }
}

// The values from W's diagonal, the largest first.
void sort_sides(const Sides& of, double* values) {
  const int64_t count = of.work.rows;
  for (int64_t i = 0; i < count; ++i) {
    values[i] = std::abs(of.work.at(i, i));
    if (of.work.at(i, i) >= 0) continue;
    for (int64_t row = 0; row < of.u.rows; ++row) of.u.at(row, i) = -of.u.at(row, i);
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t most = std::max_element(values + i, values + count) - values;
    if (values[most] == 0) break;
    if (most == i) continue;
    std::swap(values[i], values[most]);
    swap_columns(of.u, i, most);
    swap_columns(of.v, i, most);
  }
}

std::unique_ptr<Kernel> make_singular_vectors(const Problem& problem) {
  return for_each_matrix(problem,
                         [](auto zero, const KernelCall& call, int64_t sample, double* scratch) {
                           using T = decltype(zero);
                           const int64_t m = call.inputs[0].dims[1];
                           const int64_t n = call.inputs[0].dims[2];
                           const int64_t k = std::min(m, n);
                           const bool wide = m < n;
                           const Matrix a{scratch, std::max(m, n), k};
                           const Matrix work{a.numbers + m * n, k, k};
                           const Matrix u{work.numbers + k * k, m, k};
                           const Matrix v{u.numbers + m * k, n, k};
                           double* const values = v.numbers + n * k;
                           load<T>(call.inputs[0], sample, a, wide);
                           double scale = largest(a);
                           if (scale == 0) scale = 1;
                           if (std::isfinite(scale)) {
                             divide_by(a, scale);
                             begin_sides(a, wide, values + k, {work, u, v});
                             make_diagonal({work, u, v});
                             sort_sides({work, u, v}, values);
                           } else {
                             std::fill_n(u.numbers, m * k + n * k + k, kNone);
                           }
                           if (call.outputs[0].data != nullptr)
                             store<T>(u, call.outputs[0], sample);
                           store_values<T>(values, k, scale, call.outputs[1], sample);
                           if (call.outputs[2].data != nullptr)
                             store<T>(v, call.outputs[2], sample);
                         });
}

// Seven matrices, the largest as A, and three rows.
Bytes singular_grad_scratch(const Problem& problem) {
  const int64_t m = problem.inputs[3].shape[1].count;
  const int64_t n = problem.inputs[5].shape[1].count;
  const int64_t k = problem.inputs[3].shape[2].count;
  return Bytes(8) * (2 * m * k + 2 * n * k + 2 * k * k + 2 * m * n + 2 * k);
}

// (dU, ds, dV, U, s, V), with F(i, j) = 1 / (s(j)² − s(i)²): U (sym(F ∘ Uᵀ dU) S + S sym(F ∘ Vᵀ
// dV) + diag(ds)) Vᵀ, and what the vectors leave of the longer side: (I − U Uᵀ) dU S⁻¹ Vᵀ or
// U S⁻¹ dVᵀ (I − V Vᵀ).
class SingularGradient {
 public:
  SingularGradient(int64_t m, int64_t n, int64_t k, double* scratch)
      : u{scratch, m, k},
        du{u.numbers + m * k, m, k},
        v{du.numbers + m * k, n, k},
        dv{v.numbers + n * k, n, k},
        inner{dv.numbers + n * k, k, k},
        part{inner.numbers + k * k, k, k},
        da{part.numbers + k * k, m, n},
        more{da.numbers + m * n, m, n},
        s(more.numbers + m * n),
        ds(s + k) {}

  void compute() const {
    std::fill_n(inner.numbers, inner.rows * inner.columns, 0.0);
    const int64_t k = inner.rows;
    for (const bool left : {true, false}) {
      multiply(left ? u : v, true, left ? du : dv, false, part);
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < k; ++j) {
          if (i == j) continue;
          const double both =
              (part.at(i, j) - part.at(j, i)) * safe_reciprocal(square(s[j]) - square(s[i]));
          inner.at(i, j) += both * (left ? s[j] : s[i]);
        }
      }
    }
    for (int64_t i = 0; i < k; ++i) inner.at(i, i) = ds[i];
    // The columns of what remains of a side's gradient, over the values, stand for the gradient.
    remain(u, du);
    remain(v, dv);
    const Matrix rows{more.numbers, u.rows, k};
    multiply(u, false, inner, false, rows);
    for (int64_t i = 0; i < u.rows * k; ++i) rows.numbers[i] += du.numbers[i];
    for (int64_t i = 0; i < u.rows; ++i) {
      for (int64_t j = 0; j < v.rows; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          sum += rows.at(i, l) * v.at(j, l) + u.at(i, l) * dv.at(j, l);
        }
        da.at(i, j) = sum;
      }
    }
  }

  Matrix u, du, v, dv, inner, part, da, more;
  double* s;
  double* ds;

 private:
  // d = (d − x xᵀ d) S⁻¹ of a side with more rows than vectors; of another nothing remains.
  void remain(const Matrix& x, const Matrix& d) const {
    multiply(x, true, d, false, part);
    const bool more_rows = x.rows > x.columns;
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t j = 0; j < x.columns; ++j) {
        double sum = d.at(i, j);
        for (int64_t l = 0; l < x.columns; ++l) sum -= x.at(i, l) * part.at(l, j);
        d.at(i, j) = more_rows ? sum * safe_reciprocal(s[j]) : 0;
      }
    }
  }
};

std::unique_ptr<Kernel> make_singular_vectors_grad(const Problem& problem) {
  return for_each_matrix(
      problem, [](auto zero, const KernelCall& call, int64_t sample, double* scratch) {
        using T = decltype(zero);
        const int64_t k = call.inputs[3].dims[2];
        const SingularGradient of(call.inputs[3].dims[1], call.inputs[5].dims[1], k, scratch);
        load<T>(call.inputs[0], sample, of.du);
        load_values<T>(call.inputs[1], sample, k, of.ds);
        load<T>(call.inputs[2], sample, of.dv);
        load<T>(call.inputs[3], sample, of.u);
        load_values<T>(call.inputs[4], sample, k, of.s);
        load<T>(call.inputs[5], sample, of.v);
        of.compute();
        store<T>(of.da, call.outputs[0], sample);
      });
}

constexpr KernelEntry kEntries[] = {
    {"singular_vectors", make_singular_vectors, singular_scratch},
    {"singular_vectors_grad", make_singular_vectors_grad, singular_grad_scratch},
};

}  // namespace

std::span<const KernelEntry> singular_vector_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
