#include "graph/prune.h"

#include <gtest/gtest.h>

#include "graph/text.h"
#include "graph/verify.h"
#include "unit/graph/test_ops.h"

namespace plimsoll::graph {
namespace {

TEST(PruneTest, KeepsWhatLeadsToOutputsAndWrites) {
  const Graph graph = parse_graph(
      "input %x float32 (B, 4)\n"
      "input %unused float32 (B)\n"
      "state %dead float32 (4, 4) weight\n"
      "state %w float32 (4, 4) weight\n"
      "state alone float32 (2) weight\n"
      "node gone matmul (%x, %dead) -> (%gone float32 (B, 4)) {} forward\n"
      "node gone2 product (%gone, %gone) -> (%gone2 float32 (B, 4)) {} forward\n"
      "node y matmul (%x, %w) -> (%y float32 (B, 4)) {} forward\n"
      "node h halves (%y) -> (%h float32 (B, 2), %h:1 float32 (B, 2)) {} forward\n"
      "node g matmul_grad_w (%x, %y) -> (%g float32 (4, 4)) {} backward\n"
      "node w/write state_write (%g) -> () {} writes=w update\n"
      "output %h:1\n",
      testing::test_registry());
  const Graph pruned = prune(graph);
  EXPECT_EQ(verify(pruned), std::nullopt);
  EXPECT_EQ(print(pruned),
            "input %x float32 (B, 4)\n"
            "input %unused float32 (B)\n"
            "state %w float32 (4, 4) weight\n"
            "node y matmul (%x, %w) -> (%y float32 (B, 4)) {} forward\n"
            "node h halves (%y) -> (%h float32 (B, 2), %h:1 float32 (B, 2)) {} forward\n"
            "node g matmul_grad_w (%x, %y) -> (%g float32 (4, 4)) {} backward\n"
            "node w/write state_write (%g) -> () {} writes=w update\n"
            "output %h:1\n");
  EXPECT_EQ(prune(pruned), pruned);
}

TEST(PruneTest, AVariableThatIsOnlyWrittenIsNotRead) {
  const Graph graph = parse_graph(
      "state %w float32 (2) weight\n"
      "node z zeros () -> (%z float32 (2)) {dtype=\"float32\", shape=[2]} forward\n"
      "node w/write state_write (%z) -> () {} writes=w update\n",
      testing::test_registry());
  const Graph pruned = prune(graph);
  EXPECT_EQ(verify(pruned), std::nullopt);
  ASSERT_EQ(pruned.states.size(), 1u);
  EXPECT_FALSE(pruned.states[0].incoming.valid());
  EXPECT_EQ(pruned.values.size(), 1u);
}

}  // namespace
}  // namespace plimsoll::graph
