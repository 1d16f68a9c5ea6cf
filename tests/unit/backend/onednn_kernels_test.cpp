// The oneDNN backend: which weights its kernels want packed, and tails.

#include <gtest/gtest.h>

#include "unit/backend/kernel_graphs.h"
#include "unit/base/expect_error.h"

namespace plimsoll::backend_test {
namespace {

using graph::Graph;
using graph::NodeId;

NodeId node_of(const Graph& graph, std::string_view op) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op->name() == op) return NodeId(i);
  }
  return NodeId();
}

Graph graph_named(std::string_view name) {
  for (const KernelGraph& candidate : all_kernel_graphs()) {
    if (candidate.name == name) return candidate.graph;
  }
  return {};
}

// A pack pays where plain weights would run on another implementation.
TEST(OnednnPacks, FirstLayersAndInputGradientsArePacked) {
  const auto backend = make_onednn(2);
  if (backend->catalog().kernel_set().find("avx512") == std::string::npos) {
    GTEST_SKIP() << "which weights are packed was measured on AVX-512";
  }
  const auto packs = [&](std::string_view name, std::string_view op) {
    const Graph graph = graph_named(name);
    return backend->packs(graph, node_of(graph, op)).size();
  };
  EXPECT_EQ(packs("first_layer", "conv2d"), 1u);
  EXPECT_EQ(packs("even_kernel", "conv2d"), 0u);
  EXPECT_EQ(packs("even_kernel", "conv2d_grad_input"), 1u);
  EXPECT_EQ(packs("middle_layer", "conv2d_grad_kernel"), 0u);
  EXPECT_EQ(packs("wide", "dense"), 0u);
  EXPECT_EQ(packs("wide", "dense_grad_input"), 0u);
  EXPECT_EQ(packs("pool", "max_pool2d"), 0u);
}

// The layout of a full block holds for tails, whatever the batch.
TEST(OnednnPacks, LayoutsDoNotDependOnTheBatch) {
  for (int64_t cap : {2, 4, 8}) {
    const auto backend = make_onednn(2, cap);
    for (const KernelGraph& candidate : convolution_graphs()) {
      const Graph mine = prepared(*backend, candidate.graph);
      // A kernel whose layout is not the pack node's refuses to be made.
      for (int64_t batch : {1, 3, 8}) run_graph(*backend, mine, batch);
    }
  }
}

TEST(OnednnPacks, AnotherKernelSetsLayoutIsRefused) {
  const auto backend = make_onednn(1);
  const auto expect_refused = [&](std::string_view name, std::string_view before,
                                  std::string_view change) {
    SCOPED_TRACE(name);
    Graph mine = prepared(*backend, graph_named(name));
    const NodeId pack = node_of(mine, "pack");
    ASSERT_TRUE(pack.valid());
    std::string layout = mine.node(pack).attributes.get_string("layout");
    const size_t at = layout.find(before);
    ASSERT_NE(at, std::string::npos) << layout;
    layout.replace(at + before.size(), 1, change);
    mine.node(pack).attributes.set("layout", layout);
    test::expect_error(ErrorKind::kModel, "Make the graph again for",
                       [&] { run_graph(*backend, mine, 2); });
  };
  expect_refused("even_kernel", ":b", "8");  // blocks of 8 or 86 in the place of 16
  if (backend->packs(graph_named("tiled_odd"), node_of(graph_named("tiled_odd"), "conv2d"))
          .empty()) {
    GTEST_SKIP() << "no windows are tiled here";
  }
  for (const char* change : {"", "8", "-3", "99999999999999999999"}) {
    expect_refused("tiled_odd", ":c", change);
    expect_refused("tiled_odd", ":panel", change);
  }
  expect_refused("tiled_odd", "winograd", ":f3");
}

// A tail that the library has no fast kernel for runs as a full block, in scratch.
TEST(OnednnTails, RunAsFullBlocksWhereThatIsFaster) {
  const auto backend = make_onednn(2, 4);
  const Graph mine = prepared(*backend, graph_named("even_kernel"));
  const NodeId node = node_of(mine, "conv2d_grad_input");
  if (backend->packs(mine, node).empty() && !find_node(mine, "kernel/pack").valid()) {
    GTEST_SKIP() << "this machine's kernels take plain weights";
  }
  const auto scratch = [&](int64_t samples) {
    const std::vector<int64_t> extents = {samples};
    return backend->catalog().scratch(mine, node, 11, extents, {});
  };
  // dy and dx of four samples: 8 × 7 and 7 × 7 positions of 64 channels.
  const Bytes padded(4 * (8 * 7 + 7 * 7) * 64 * 4);
  if (scratch(3) < padded) GTEST_SKIP() << "this machine has a fast kernel for that tail";
  EXPECT_GE(scratch(3), scratch(4) + padded);
}

}  // namespace
}  // namespace plimsoll::backend_test
