// The reference's catalog: scratch as kernels use it, times that grow with work, row-exactness.
// (tests/ops runs every kernel in exactly the scratch that is stated here.)

#include <gtest/gtest.h>

#include "backend/kernel/backends.h"
#include "backend/kernel/kernel.h"
#include "backend/kernel/region.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "unit/base/expect_error.h"

namespace plimsoll::backend {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

Dim of(int64_t n) { return Dim::constant(n); }

// dense_grad_kernel with bias, 7 inputs, 6 units.
Graph kernel_gradient() {
  graph::GraphBuilder builder(ops::registry());
  const ValueId x = builder.input("x", {DType::kFloat32, {Dim::batch(), of(7)}});
  const ValueId dy = builder.input("dy", {DType::kFloat32, {Dim::batch(), of(6)}});
  builder.add("dense_grad_kernel", "dw", {x, dy}, {{"use_bias", true}});
  return builder.finish();
}

TEST(Catalog, ScratchFollowsTheExtentsOfTheCall) {
  const auto backend = make_backend("reference", {});
  const Graph graph = kernel_gradient();
  const auto scratch = [&](std::vector<int64_t> extents) {
    return backend->catalog().scratch(graph, NodeId(0), 16, extents, {});
  };
  EXPECT_EQ(scratch({8, 6}), Bytes(8 * 8 * 6));
  EXPECT_EQ(scratch({1, 6}), Bytes(8 * 8 * 6));
  EXPECT_EQ(scratch({8, 2}), Bytes(8 * 8 * 2));
}

TEST(Catalog, TimesGrowWithWork) {
  const auto backend = make_backend("reference", {});
  const Graph graph = kernel_gradient();
  const auto seconds = [&](std::vector<int64_t> extents) {
    return backend->catalog().seconds(graph, NodeId(0), 16, extents);
  };
  EXPECT_GT(seconds({1, 6}), 0.0);
  EXPECT_GT(seconds({16, 6}), seconds({8, 6}));
  EXPECT_GT(seconds({8, 6}), seconds({8, 2}));
}

TEST(Catalog, ReduceAxesAndHeavyNodesAreNotRowExact) {
  graph::GraphBuilder builder(ops::registry());
  const ValueId x = builder.input("x", {DType::kFloat32, {Dim::batch(), of(7)}});
  const ValueId w = builder.input("w", {DType::kFloat32, {of(7), of(6)}});
  builder.call("dense", "dense", {x, w}, {{"units", 6}});
  builder.call("activation", "relu", {x}, {{"kind", "relu"}});
  builder.call("batch_sum", "sum", {x});
  const Graph graph = builder.finish();
  const auto backend = make_backend("reference", {});
  EXPECT_FALSE(backend->catalog().row_exact(graph, NodeId(0), 0));
  EXPECT_TRUE(backend->catalog().row_exact(graph, NodeId(1), 0));
  EXPECT_FALSE(backend->catalog().row_exact(graph, NodeId(2), 0));
}

TEST(Catalog, ConvolutionsHaveSmallerBlocksThanDenseLayers) {
  graph::GraphBuilder builder(ops::registry());
  const ValueId x = builder.input("x", {DType::kFloat32, {Dim::batch(), of(6), of(6), of(3)}});
  const ValueId w = builder.input("w", {DType::kFloat32, {of(3), of(3), of(3), of(4)}});
  builder.call("conv2d", "conv", {x, w},
               {{"filters", 4},
                {"kernel_size", std::vector<int64_t>{3, 3}},
                {"strides", std::vector<int64_t>{1, 1}},
                {"padding", std::vector<int64_t>{0, 0, 0, 0}},
                {"dilation_rate", std::vector<int64_t>{1, 1}},
                {"groups", 1}});
  const Graph graph = builder.finish();
  EXPECT_EQ(make_backend("reference", {})->catalog().block(graph, NodeId(0)),
            (graph::Block{2, graph::kWholeAxis}));
}

// Rows of an image whose call passes 32 MiB, of one image at a time; maps need no block for that.
TEST(Catalog, LargeImagesAreCutOverTheirRows) {
  graph::GraphBuilder builder(ops::registry());
  const ValueId x = builder.input("x", {DType::kFloat32, {Dim::batch(), of(512), of(512), of(32)}});
  const ValueId w = builder.input("w", {DType::kFloat32, {of(3), of(3), of(32), of(32)}});
  const ValueId y = builder.call("conv2d", "conv", {x, w},
                                 {{"filters", 32},
                                  {"kernel_size", std::vector<int64_t>{3, 3}},
                                  {"strides", std::vector<int64_t>{1, 1}},
                                  {"padding", std::vector<int64_t>{1, 1, 1, 1}},
                                  {"dilation_rate", std::vector<int64_t>{1, 1}},
                                  {"groups", 1}});
  builder.call("activation", "relu", {y}, {{"kind", "relu"}});
  const Graph graph = builder.finish();
  const auto backend = make_backend("reference", {});
  EXPECT_EQ(backend->catalog().block(graph, NodeId(0)), (graph::Block{1, 128}));
  EXPECT_EQ(backend->catalog().block(graph, NodeId(1))[1], graph::kWholeAxis);
}

TEST(NullBackend, AccountsWithoutComputing) {
  const auto null = make_backend("null", {});
  const auto reference = make_backend("reference", {});
  const Graph graph = kernel_gradient();
  const std::vector<int64_t> extents = {4, 6};
  EXPECT_FALSE(null->computes());
  EXPECT_EQ(null->catalog().block(graph, NodeId(0)), reference->catalog().block(graph, NodeId(0)));
  EXPECT_EQ(null->catalog().scratch(graph, NodeId(0), 8, extents, {}),
            reference->catalog().scratch(graph, NodeId(0), 8, extents, {}));
  const auto kernel = null->make_kernel({graph, NodeId(0), 8, extents, {}, {}, {}, {}, {}});
  kernel->run({});  // touches nothing
  const graph::ValueType type{DType::kFloat32, {Dim::batch(), of(3)}};
  null->make_encoder({"positive_bits", type, 4})->run({});
}

TEST(NullBackend, RefusesWhatTheReferenceRefuses) {
  graph::GraphBuilder builder(ops::registry());
  const ValueId w = builder.input("w", {DType::kFloat32, {of(7), of(6)}});
  builder.call("pack", "pack", {w}, {{"layout", "blocked"}, {"bytes", 168}});
  const Graph graph = builder.finish();
  for (const char* name : {"null", "reference"}) {
    test::expect_error(ErrorKind::kBackend, "expected the layout \"plain\" of 168 bytes", [&] {
      make_backend(name, {})->make_kernel({graph, NodeId(0), 1, {}, {}, {}, {}, {}, {}});
    });
    const graph::ValueType type{DType::kFloat32, {Dim::batch(), of(3)}};
    test::expect_error(ErrorKind::kBackend, "saved form", [&] {
      make_backend(name, {})->make_encoder({"two_bits", type, 4});
    });
  }
}

TEST(Region, FollowsTheRuleOfAxes) {
  const graph::ValueType type{DType::kFloat32, {Dim::batch(4), of(10)}};
  // Four rows a sample, and a window of three around each column.
  const std::vector<graph::AxisUse> uses = {{.dimension = 0, .stride = 4, .before = 0, .after = 3},
                                            {.dimension = 1, .stride = 1, .before = 1, .after = 1}};
  const std::vector<int64_t> begin = {2, 0};
  const std::vector<int64_t> extents = {3, 4};
  EXPECT_EQ(find_region(type, 8, uses, begin, extents), (Region{.begin = {8, 0}, .dims = {12, 5}}));
  const std::vector<int64_t> end = {7, 6};
  const std::vector<int64_t> rest = {1, 4};
  EXPECT_EQ(find_region(type, 8, uses, end, rest), (Region{.begin = {28, 5}, .dims = {4, 5}}));
  EXPECT_EQ(dense_strides(std::vector<int64_t>{4, 3, 5}), (std::vector<int64_t>{15, 5, 1}));
}

}  // namespace
}  // namespace plimsoll::backend
