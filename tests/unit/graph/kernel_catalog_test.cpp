#include "graph/kernel_catalog.h"

#include <gtest/gtest.h>

#include "graph/text.h"
#include "unit/graph/test_ops.h"

namespace plimsoll::graph {
namespace {

TEST(KernelCatalogTest, BlocksAreMadeConcrete) {
  const Graph graph = parse_graph(
      "input %x float32 (B, 4)\n"
      "node p product (%x, %x) -> (%p float32 (B, 4)) {} forward\n",
      testing::test_registry());
  const NodeId node(size_t{0});
  EXPECT_EQ(concrete_block(graph, node, {kWholeAxis}, 19), (std::vector<int64_t>{19}));
  EXPECT_EQ(concrete_block(graph, node, {4}, 19), (std::vector<int64_t>{4}));
  EXPECT_EQ(concrete_block(graph, node, {32}, 19), (std::vector<int64_t>{19}));
}

}  // namespace
}  // namespace plimsoll::graph
