// The reference's kernels shared out among threads: the reference's bits, whatever the team and the
// blocks, and who may not be shared out.

#include "backend/cpu/shared_reference.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ops/evaluate.h"
#include "ops/registry.h"
#include "unit/backend/kernel_graphs.h"

namespace plimsoll::backend_test {
namespace {

using graph::Graph;
using graph::GraphBuilder;
using graph::NodeId;
using graph::ValueId;
using ops_test::Buffer;

// Operators that have plain loops alone: maps, a move, and a sum over the batch.
Graph plain_graph() {
  GraphBuilder b(ops::registry());
  const graph::ValueType type{DType::kFloat32,
                              Shape({Dim::batch(), Dim::constant(29), Dim::constant(67)})};
  const ValueId x = b.input("x", type);
  const ValueId y = b.input("y", type);
  ValueId z = b.call("divide", "quotient", {x, y});
  z = b.call("maximum", "larger", {z, x});
  z = b.call("transpose", "turned", {z}, {{"permutation", std::vector<int64_t>{2, 1}}});
  z = b.call("gaussian_noise", "noisy", {z}, {{"stddev", 0.5}, {"site", int64_t{3}}});
  b.call("batch_sum", "total", {z});
  std::vector<Dim> dims(10, Dim::constant(2));
  dims.front() = Dim::batch();
  const ValueId w = b.input("w", {DType::kFloat32, Shape(dims)});
  b.call("maximum", "deep", {w, w});
  return b.finish();
}

NodeId node_named(const Graph& graph, std::string_view name) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].name == name) return NodeId(i);
  }
  return NodeId();
}

TEST(SharedReference, HasTheReferencesBitsOnAnyTeam) {
  constexpr int64_t kBatch = 11;
  const Graph graph = plain_graph();
  const auto reference = backend::make_backend("reference", {});
  const std::vector<Buffer> expected = run_graph(*reference, graph, kBatch);
  for (const std::string& name : vectorized_backends()) {
    for (int threads : {1, 2, 3, 16}) {
      for (int64_t cap : {1, 4, 64}) {
        SCOPED_TRACE(name + ", " + std::to_string(threads) + " threads, blocks of " +
                     std::to_string(cap));
        const auto backend = make_vectorized(name, threads, cap);
        const std::vector<Buffer> actual = run_graph(*backend, graph, kBatch);
        for (const char* value : {"quotient", "larger", "turned", "noisy"}) {
          const size_t at = graph.node(node_named(graph, value)).outputs[0].index();
          EXPECT_TRUE(actual[at].same_contents(expected[at])) << value;
        }
      }
    }
  }
}

TEST(SharedReference, SumsOverTheBatchAndSingleSamplesStayWithOneThread) {
  const Graph graph = plain_graph();
  const auto parts = [&](std::string_view name, int64_t samples, int threads) {
    const NodeId node = node_named(graph, name);
    std::vector<int64_t> extents;
    for (const graph::Axis& axis : axes_of(graph, node)) extents.push_back(axis.extent.at(samples));
    const std::vector<std::string> forms(graph.node(node).inputs.size());
    return backend::cpu::shared_reference_parts(graph, node, samples, extents, forms, threads);
  };
  EXPECT_EQ(parts("quotient", 8, 4), 4);
  EXPECT_EQ(parts("quotient", 3, 4), 3);
  EXPECT_EQ(parts("quotient", 1, 4), 1);
  EXPECT_EQ(parts("quotient", 8, 1), 1);
  EXPECT_EQ(parts("turned", 8, 4), 4);
  EXPECT_EQ(parts("total", 8, 4), 1);
  EXPECT_EQ(parts("deep", 8, 4), 1) << "of more dimensions than a part is described with";
}

}  // namespace
}  // namespace plimsoll::backend_test
