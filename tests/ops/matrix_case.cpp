#include <algorithm>

#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

// Symmetric and positive definite: x xᵀ of more columns than rows.
ValueId definite(CaseBuilder& c) {
  const ValueId x = c.input("x", {Dim::batch(), of(4), of(11)});
  return c.call("batch_matmul", {x, x}, {{"transpose_right", true}});
}

// Float32's rounding is multiplied by how far from singular the matrices are.
Case loosened(Case made) {
  made.tolerance = 1e-3;
  made.gradient_tolerance = 1e-5;
  return made;
}

Case of_matrix(const std::string& op, const Attributes& attributes = {}) {
  return loosened({.name = op, .build = [=](CaseBuilder& c) {
                     c.result(c.call(op, {definite(c)}, attributes));
                   }});
}

Case solve(const std::string& triangle, bool transposed) {
  return loosened({.name = "solve_" + triangle + (transposed ? "_transposed" : ""),
                   .build = [=](CaseBuilder& c) {
                     const ValueId b = c.input("b", {Dim::batch(), of(4), of(3)});
                     c.result(c.call("solve", {definite(c), b},
                                     {{"triangle", triangle}, {"transposed", transposed}}));
                   }});
}

// Either factor or both, which the loss sees at once.
Case qr(const std::string& name, bool square, bool first, bool second) {
  return loosened({.name = name, .build = [=](CaseBuilder& c) {
                     const ValueId a = c.input("a", {Dim::batch(), of(square ? 3 : 5), of(3)});
                     const graph::NodeId node = c.builder().add("qr", "qr", {a});
                     const std::vector<ValueId> both = c.builder().graph().node(node).outputs;
                     if (first && second) {
                       c.result(c.call("batch_matmul", {both[0], c.call("activation", {both[1]},
                                                                        {{"kind", "tanh"}})}));
                     } else {
                       c.result(both[first ? 0 : 1]);
                     }
                   }});
}

// The matrix is higher than wide, or wider.
Case of_rectangle(const std::string& op, int64_t rows, int64_t columns,
                  const Attributes& attributes = {}) {
  return loosened({.name = op + (rows < columns ? "_wide" : ""), .build = [=](CaseBuilder& c) {
                     const ValueId a = c.input("a", {Dim::batch(), of(rows), of(columns)});
                     c.result(c.call(op, {a}, attributes));
                   }});
}

Case log_determinant() {
  return loosened({.name = "log_determinant", .build = [](CaseBuilder& c) {
                     const graph::NodeId node =
                         c.builder().add("log_determinant", "log_determinant", {definite(c)});
                     const std::vector<ValueId> both = c.builder().graph().node(node).outputs;
                     c.result(both[1]);
                   }});
}

// As it stands in the other way of its columns, each times a bounded function of its number: what
// the vectors' signs do not change.
ValueId weighted_columns(CaseBuilder& c, ValueId vectors, ValueId numbers, int64_t rows,
                         int64_t count) {
  const ValueId bounded = c.call("activation", {numbers}, {{"kind", "tanh"}});
  const ValueId row = c.call("reshape", {bounded}, {{"shape", std::vector<int64_t>{1, count}}});
  const ValueId all = c.call("broadcast", {row}, {{"shape", std::vector<int64_t>{rows, count}}});
  return c.call("multiply", {vectors, all});
}

// V diag(tanh e) Vᵀ, or the squares of V alone.
Case eigenvectors(bool both) {
  return loosened(
      {.name = both ? "eigenvectors" : "eigenvectors_alone", .build = [=](CaseBuilder& c) {
         const graph::NodeId node = c.builder().add("eigenvectors", "eigenvectors", {definite(c)});
         const std::vector<ValueId> found = c.builder().graph().node(node).outputs;
         if (!both) {
           c.result(c.call("multiply", {found[1], found[1]}));
           return;
         }
         const ValueId left = weighted_columns(c, found[1], found[0], 4, 4);
         c.result(c.call("batch_matmul", {left, found[1]}, {{"transpose_right", true}}));
       }});
}

// U diag(tanh s) Vᵀ.
Case singular_vectors(const std::string& name, int64_t rows, int64_t columns) {
  return loosened(
      {.name = name, .build = [=](CaseBuilder& c) {
         const ValueId a = c.input("a", {Dim::batch(), of(rows), of(columns)});
         const graph::NodeId node = c.builder().add("singular_vectors", "singular_vectors", {a});
         const std::vector<ValueId> found = c.builder().graph().node(node).outputs;
         const ValueId left =
             weighted_columns(c, found[0], found[1], rows, std::min(rows, columns));
         c.result(c.call("batch_matmul", {left, found[2]}, {{"transpose_right", true}}));
       }});
}

}  // namespace

std::vector<Case> matrix_cases() {
  return {
      of_matrix("cholesky"),
      of_matrix("determinant"),
      of_matrix("inverse"),
      eigenvectors(true),
      eigenvectors(false),
      of_matrix("triangle", {{"of", "lower"}}),
      log_determinant(),
      of_rectangle("pseudo_inverse", 5, 3, {{"rcond", 1e-6}}),
      of_rectangle("pseudo_inverse", 3, 5, {{"rcond", 1e-6}}),
      qr("qr", false, true, true),
      qr("qr_q", false, true, false),
      qr("qr_r", true, false, true),
      qr("qr_square", true, true, true),
      of_rectangle("singular_values", 5, 3),
      of_rectangle("singular_values", 3, 5),
      singular_vectors("singular_vectors", 4, 4),
      singular_vectors("singular_vectors_high", 5, 3),
      singular_vectors("singular_vectors_wide", 3, 5),
      solve("none", false),
      solve("none", true),
      solve("lower", false),
      solve("upper", true),
      solve("upper", false),
  };
}

}  // namespace plimsoll::ops_test
