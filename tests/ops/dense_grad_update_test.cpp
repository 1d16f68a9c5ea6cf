// The node against the separate nodes that the fuse pass merges, in float64.

#include <gtest/gtest.h>

#include "backend/kernel/backends.h"
#include "graph/verify.h"
#include "ops/cases.h"
#include "ops/evaluate.h"
#include "ops/fuse/fuse.h"
#include "ops/registry.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

// The gradient's only reader is the update unless `read_twice`.
Case update(bool read_twice) {
  return {.name = "update",
          .build =
              [=](CaseBuilder& c) {
                const Shape shape{of(40), of(30)};
                const ValueId w = c.constant("w", shape);
                const ValueId x = c.constant("x", {Dim::batch(), of(2), of(40)});
                const ValueId dy = c.constant("dy", {Dim::batch(), of(2), of(30)});
                const ValueId g = c.call("dense_grad_kernel", {x, dy});
                c.call("adam",
                       {w, g, c.constant("m", shape, Fill::kPositive),
                        c.constant("v", shape, Fill::kPositive),
                        c.constant("rate", Shape(), Fill::kPositive),
                        c.integers("step", Shape(), DType::kInt64, 20)},
                       {{"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}});
                if (read_twice) c.call("sum_squares", {g}, {{"factor", 1.0}});
              },
          .batch = 3};
}

bool merges(const graph::Graph& graph, Bytes least, int64_t batch) {
  const graph::Graph fused = ops::fuse(graph, ops::registry(), {.dense_update = least}, batch);
  EXPECT_EQ(graph::verify(fused).value_or(""), "");
  EXPECT_EQ(fused.nodes.size(), graph.nodes.size() - (fused.nodes.size() < graph.nodes.size()));
  return fused.nodes.back().op->name() == "dense_grad_update";
}

TEST(DenseGradUpdate, TakesThePlaceOfTheGradientOfALargeWeight) {
  const graph::Graph graph = build_case(update(false), DType::kFloat32).graph;
  const Bytes weight(40 * 30 * 4);
  EXPECT_TRUE(merges(graph, weight, 4));
  EXPECT_FALSE(merges(graph, Bytes(), 4));
  EXPECT_FALSE(merges(graph, weight + Bytes(1), 4));
  EXPECT_FALSE(merges(graph, weight, 5));  // 2 · 5 · 2 · 70 · 4 bytes of factors
  EXPECT_FALSE(ops::fuse(graph, ops::registry(), {.dense_update = weight, .dense_update_rows = 41},
                         4) != graph);
  EXPECT_FALSE(merges(build_case(update(true), DType::kFloat32).graph, weight, 4));
}

TEST(DenseGradUpdate, IsWhatTheSeparateNodesAre) {
  const auto backend = backend::make_backend("reference", {});
  const Case test_case = update(false);
  const BuiltCase built = build_case(test_case, DType::kFloat64);
  const graph::Graph fused =
      ops::fuse(built.graph, ops::registry(), {.dense_update = Bytes(1)}, test_case.batch);
  ASSERT_EQ(fused.nodes.back().op->name(), "dense_grad_update");
  std::vector<Buffer> expected = fill_values(built, test_case.batch);
  std::vector<Buffer> actual = fill_values(fused, built, test_case.batch);
  const auto run = [&](const graph::Graph& graph, std::vector<Buffer>& values) {
    evaluate(*backend, graph, test_case.batch, Blocks::kWhole, graph.nodes.size(), values);
  };
  run(built.graph, expected);
  run(fused, actual);
  const auto& outputs = built.graph.nodes.back().outputs;
  ASSERT_EQ(fused.nodes.back().outputs.size(), outputs.size());
  for (size_t o = 0; o < outputs.size(); ++o) {
    const Buffer& one = expected[outputs[o].index()];
    const Buffer& other = actual[fused.nodes.back().outputs[o].index()];
    EXPECT_TRUE(one.same_contents(other)) << o;
  }
}

}  // namespace
}  // namespace plimsoll::ops_test
