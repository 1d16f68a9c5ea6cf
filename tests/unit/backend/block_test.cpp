// Blocks as a pure function of shapes and kernel set.

#include "backend/kernel/block.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "ops/registry.h"

namespace plimsoll::backend {
namespace {

using graph::Block;
using graph::Graph;
using graph::kWholeAxis;
using graph::NodeId;
using graph::ValueId;

Dim of(int64_t n) { return Dim::constant(n); }

Graph dense(int64_t inputs, int64_t units) {
  graph::GraphBuilder builder(ops::registry());
  const ValueId x = builder.input("x", {DType::kFloat32, {Dim::batch(), of(inputs)}});
  const ValueId w = builder.input("w", {DType::kFloat32, {of(inputs), of(units)}});
  builder.call("dense", "dense", {x, w}, {{"units", units}});
  return builder.finish();
}

Graph relu(int64_t elements) {
  graph::GraphBuilder builder(ops::registry());
  const ValueId x = builder.input("x", {DType::kFloat32, {Dim::batch(), of(elements)}});
  builder.call("activation", "relu", {x}, {{"kind", "relu"}});
  return builder.finish();
}

Block block_of(const Graph& graph, const KernelSetOptions& options = {}, int64_t batch = 8) {
  return choose_block(graph, NodeId(0), {.batch = batch}, options);
}

TEST(BlockOfANode, TakesTheBatchThatTheBackendLikes) {
  EXPECT_EQ(block_of(dense(100, 10)), (Block{8, kWholeAxis}));
  EXPECT_EQ(block_of(dense(100, 10), {}, 32), (Block{32, kWholeAxis}));
}

TEST(BlockOfANode, HalvesTheBatchUntilACallIsSmall) {
  // In and out are 2 × 2 MiB a sample: two samples make 8 MiB.
  EXPECT_EQ(block_of(relu(512 << 10)), Block{2});
  // 16 MiB at one sample: nothing smaller is left.
  EXPECT_EQ(block_of(relu(2 << 20)), Block{1});
}

TEST(BlockOfANode, CutsUnitsOnlyWhereOneSamplesCallIsLarge) {
  // 4 MiB of weights.
  EXPECT_EQ(block_of(dense(1024, 1024)), (Block{8, kWholeAxis}));
  // 150 MiB of weights: 50257 units are cut to 8192 (25 MiB).
  EXPECT_EQ(block_of(dense(768, 50257)), (Block{8, 8192}));
}

TEST(BlockOfANode, CapsAreUpperBounds) {
  EXPECT_EQ(block_of(dense(100, 10), {.caps = {{"batch", 4}, {"units", 8}}}), (Block{4, 8}));
  EXPECT_EQ(block_of(dense(100, 10), {.caps = {{"batch", 7}, {"units", 16}}}),
            (Block{4, kWholeAxis}));
  EXPECT_EQ(block_of(dense(100, 10), {.caps = {{"batch", 64}, {"rows", 1}}}),
            (Block{8, kWholeAxis}));
}

TEST(BlockOfANode, BlockSetsHalveAllExtentsAboveOne) {
  EXPECT_EQ(block_of(dense(100, 10), {.block_set = 1}), (Block{4, 8}));
  EXPECT_EQ(block_of(dense(100, 10), {.block_set = 2}), (Block{2, 4}));
  EXPECT_EQ(block_of(dense(100, 10), {.block_set = 9}), (Block{1, 1}));
  EXPECT_EQ(block_of(dense(100, 1), {.block_set = 1}), (Block{4, kWholeAxis}));
}

TEST(BlockOfANode, NodesWithoutAxesHaveAnEmptyBlock) {
  graph::GraphBuilder builder(ops::registry());
  const ValueId n = builder.input("n", {DType::kInt64, Shape()});
  builder.call("increment", "increment", {n});
  EXPECT_EQ(block_of(builder.finish()), Block{});
}

}  // namespace
}  // namespace plimsoll::backend
