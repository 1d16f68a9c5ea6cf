#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

// Numbers may lie beyond the table: `classes` of them for `rows` rows.
Case embedding(const std::string& name, Shape shape, DType dtype, int64_t classes, int64_t rows,
               int64_t columns) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId ids = c.integers("ids", shape, dtype, classes);
            const ValueId table = c.input("table", {of(rows), of(columns)});
            c.result(c.call("embedding", {ids, table}));
          }};
}

// What optimizers ask for of rows that are read several times.
Case sums_over_reads(const std::string& what) {
  return {.name = "embedding_" + what, .build = [=](CaseBuilder& c) {
            const ValueId ids = c.integers("ids", {Dim::batch(), of(9)}, DType::kInt32, 5);
            const ValueId dy = c.constant("dy", {Dim::batch(), of(9), of(6)});
            c.call("embedding_grad", {ids, dy}, {{"input_dim", 5}, {"sum_of", what}});
          }};
}

}  // namespace

std::vector<Case> embedding_cases() {
  return {
      embedding("embedding", {Dim::batch(), of(9)}, DType::kInt32, 11, 11, 6),
      embedding("embedding_of_int64", {Dim::batch(), of(3), of(2)}, DType::kInt64, 4, 4, 33),
      embedding("embedding_of_bytes", {Dim::batch()}, DType::kUInt8, 7, 7, 1),
      embedding("embedding_beyond_the_table", {Dim::batch(), of(9)}, DType::kInt32, 12, 5, 4),
      sums_over_reads("squares"),
      sums_over_reads("magnitudes"),
  };
}

}  // namespace plimsoll::ops_test
