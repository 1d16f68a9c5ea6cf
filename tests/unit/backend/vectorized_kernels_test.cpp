// The kernels of the backends that are not the reference, on shapes that take the fast paths: right
// against the reference, and the same bits wherever bits must be the same. (Scratch is exactly what
// the catalog says, between guards: ops/evaluate.h.)

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/conv/depthwise.h"
#include "backend/cpu/product/dense_shape.h"
#include "backend/kernel/region.h"
#include "ops/evaluate.h"
#include "ops/fuse/fuse.h"
#include "ops/registry.h"
#include "toys/sanitized.h"
#include "unit/backend/kernel_graphs.h"
#include "unit/base/expect_error.h"

namespace plimsoll::backend_test {
namespace {

using graph::Graph;
using graph::NodeId;
using ops_test::Buffer;

class VectorizedKernels : public testing::TestWithParam<KernelGraph> {
 protected:
  const Graph& graph() const { return GetParam().graph; }
};

// Blocks of 1; of 4 and a tail of 3; of 8 and one of 3; all in one call.
TEST_P(VectorizedKernels, AgreeWithTheReference) {
  for (const std::string& backend_name : vectorized_backends()) {
    SCOPED_TRACE(backend_name);
    constexpr int64_t kBatch = 11;
    const auto reference = backend::make_backend("reference", {});
    const std::vector<Buffer> expected = run_graph(*reference, graph(), kBatch);
    for (int threads : {1, 2}) {
      for (int64_t cap : {1, 4, 8, 64}) {
        const auto backend = make_vectorized(backend_name, threads, cap);
        const Graph mine = prepared(*backend, graph());
        SCOPED_TRACE(backend->catalog().kernel_set());
        expect_close(mine, run_graph(*backend, mine, kBatch), graph(), expected, 2e-5);
      }
    }
  }
}

TEST_P(VectorizedKernels, AddressesAndRepetitionDoNotMatter) {
  for (const std::string& backend_name : vectorized_backends()) {
    SCOPED_TRACE(backend_name);
    constexpr int64_t kBatch = 7;
    for (int threads : {1, 2}) {
      const auto backend = make_vectorized(backend_name, threads, 4);
      const Graph mine = prepared(*backend, graph());
      const std::vector<Buffer> expected = run_graph(*backend, mine, kBatch);
      for (size_t shift : {0, 4, 20, 32}) {
        expect_same_bits(mine, run_graph(*backend, mine, kBatch, shift), expected,
                         "shifted by " + std::to_string(shift));
      }
      // Made again from nothing.
      const auto again = make_vectorized(backend_name, threads, 4);
      expect_same_bits(mine, run_graph(*again, mine, kBatch), expected, "in another backend");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Graphs, VectorizedKernels, testing::ValuesIn(all_kernel_graphs()),
                         [](const testing::TestParamInfo<KernelGraph>& info) {
                           return info.param.name;
                         });

// Gradients to weights are float32 sums of the same products, results are rounded once: a sum that
// lies between two numbers of bfloat16 may go to the other one.
void expect_mixed_agrees(const std::string& backend_name, const KernelGraph& candidate, int threads,
                         int64_t batch, int64_t cap, int64_t units_cap) {
  SCOPED_TRACE(candidate.name);
  // Cut along its units, a gradient to x is rounded after each of them.
  const double rounding = units_cap > 0 ? 1.0 / 32 : 1.0 / 128;
  const auto reference = backend::make_backend("reference", {});
  const auto backend = make_vectorized(backend_name, threads, cap, units_cap);
  SCOPED_TRACE(backend->catalog().kernel_set());
  const Graph mine = prepared(*backend, candidate.graph);
  const std::vector<Buffer> expected = run_graph(*reference, candidate.graph, batch);
  const std::vector<Buffer> actual = run_graph(*backend, mine, batch);
  expect_close(mine, actual, candidate.graph, expected, rounding);
  size_t gradients = 0;
  for (size_t i = 0; i < mine.values.size(); ++i) {
    const graph::Value& value = mine.values[i];
    const bool to_weight = value.kind == graph::ValueKind::kNode &&
                           mine.node(value.producer).op->name().ends_with("_grad_kernel");
    const graph::ValueId other = graph::find_value(candidate.graph, value.name);
    if (!to_weight || !other.valid()) continue;
    ++gradients;
    EXPECT_LE(worst_difference(actual[i], expected[other.index()]), 2e-5) << value.name;
  }
  EXPECT_GT(gradients, 0u);
}

TEST(VectorizedMixed, AgreesWithTheReference) {
  for (const std::string& backend_name : vectorized_backends()) {
    SCOPED_TRACE(backend_name);
    for (const auto& graphs :
         {convolution_graphs(true), dense_graphs(true), mixed_pooled_graphs()}) {
      for (const KernelGraph& candidate : graphs) {
        for (int threads = toys::kSanitized ? 3 : 1; threads <= 3; ++threads) {
          expect_mixed_agrees(backend_name, candidate, threads, 7, 4, 0);
        }
        expect_mixed_agrees(backend_name, candidate, 2, 5, 1, 16);
      }
    }
  }
}

TEST(VectorizedMixed, AddressesAndRepetitionDoNotMatter) {
  for (const std::string& backend_name : vectorized_backends()) {
    SCOPED_TRACE(backend_name);
    constexpr int64_t kBatch = 7;
    for (const auto& graphs :
         {convolution_graphs(true), dense_graphs(true), mixed_pooled_graphs()}) {
      for (const KernelGraph& candidate : graphs) {
        SCOPED_TRACE(candidate.name);
        const auto backend = make_vectorized(backend_name, 2, 4);
        const Graph mine = prepared(*backend, candidate.graph);
        const std::vector<Buffer> expected = run_graph(*backend, mine, kBatch);
        for (size_t shift : {0, 4, 20}) {
          expect_same_bits(mine, run_graph(*backend, mine, kBatch, shift), expected,
                           "shifted by " + std::to_string(shift));
        }
      }
    }
  }
}

// Threads in numbers that channels, filters and rows do not divide by.
TEST(VectorizedConvolutions, AgreeWithTheReferenceOnOddTeams) {
  for (const std::string& backend_name : vectorized_backends()) {
    SCOPED_TRACE(backend_name);
    constexpr int64_t kBatch = 4;
    const auto reference = backend::make_backend("reference", {});
    for (const KernelGraph& candidate : convolution_graphs()) {
      SCOPED_TRACE(candidate.name);
      const std::vector<Buffer> expected = run_graph(*reference, candidate.graph, kBatch);
      for (int threads : {3, 4, 7}) {
        const auto backend = make_vectorized(backend_name, threads, 3);
        const Graph mine = prepared(*backend, candidate.graph);
        expect_close(mine, run_graph(*backend, mine, kBatch), candidate.graph, expected, 2e-5);
      }
    }
  }
}

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

// Which gradients through strides are products: those of points of which none is padding.
TEST(VectorizedDense, GradientsThroughStridedPointsAreProducts) {
  if (!backend::cpu::kHasVariants) GTEST_SKIP() << "this compiler makes no loops for them";
  const auto is_spread = [&](std::string_view name, std::string_view op) {
    const Graph graph = graph_named(name);
    const NodeId node = node_of(graph, op);
    std::vector<int64_t> extents;
    for (const graph::Axis& axis : axes_of(graph, node)) extents.push_back(axis.extent.at(4));
    const auto facts = backend::cpu::node_facts(graph, node, 4, extents, {});
    const auto shape = backend::cpu::read_packed_dense(facts, {backend::cpu::Isa::kAvx512, 2});
    return shape && shape->spread;
  };
  EXPECT_TRUE(is_spread("strided_one_by_one", "conv2d_grad_input"));
  EXPECT_TRUE(is_spread("strided_points_and_more", "conv2d_grad_input"));
  EXPECT_FALSE(is_spread("strided_points_before_padding", "conv2d_grad_input"));
  EXPECT_FALSE(is_spread("one_by_one", "conv2d_grad_input"));
  EXPECT_FALSE(is_spread("strided_one_by_one", "conv2d"));
  EXPECT_FALSE(is_spread("few_points_strided", "conv2d_grad_input"));
}

// What the vendor computes of bfloat16 in plain loops: gradients to the source of single channels,
// through strides and padding on one side most of all.
TEST(VectorizedDepthwise, GradientsOfBfloat16AreNotTheVendors) {
  for (const KernelGraph& each : convolution_graphs(true)) {
    if (!each.name.starts_with("depthwise")) continue;
    const NodeId node = node_of(each.graph, "conv2d_grad_input");
    std::vector<int64_t> extents;
    for (const graph::Axis& axis : axes_of(each.graph, node)) {
      extents.push_back(axis.extent.at(4));
    }
    const auto facts = backend::cpu::node_facts(each.graph, node, 4, extents, {});
    EXPECT_TRUE(backend::cpu::is_depthwise_node(facts, {backend::cpu::Isa::kAvx512, 2}))
        << each.name;
  }
}

constexpr const char* kTiled[] = {"tiled_pieces", "tiled_odd",    "tiled_unevenly",  "tiled_small",
                                  "tiled_large",  "pooled_tiles", "pooled_odd_tiles"};

// These have samples, or are gradients to kernels.
void expect_same_bytes(const Graph& graph, bool batched, const std::vector<Buffer>& actual,
                       const std::vector<Buffer>& expected) {
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const graph::Value& value = graph.values[i];
    if (value.kind != graph::ValueKind::kNode || value.type.shape.has_batch() != batched) continue;
    if (!batched && graph.node(value.producer).op->name() != "conv2d_grad_kernel") continue;
    EXPECT_EQ(std::memcmp(actual[i].data(), expected[i].data(), expected[i].size()), 0)
        << value.name;
  }
}

// Neither threads nor the samples of a call change what a tile is computed to, nor threads a sum
// over the same blocks.
TEST(VectorizedTiles, HaveTheSameBitsInAnyChunk) {
  for (const std::string& backend_name : vectorized_backends()) {
    SCOPED_TRACE(backend_name);
    constexpr int64_t kBatch = 5;
    for (const char* name : kTiled) {
      SCOPED_TRACE(name);
      const Graph mine = prepared(*make_vectorized(backend_name, 1, 1), graph_named(name));
      const std::vector<Buffer> expected =
          run_graph(*make_vectorized(backend_name, 1, 1), mine, kBatch);
      for (int64_t cap : {1, 2, 4}) {
        for (int threads : {1, 2, 3, 7, 16}) {
          SCOPED_TRACE(std::to_string(threads) + " threads, blocks of " + std::to_string(cap));
          const std::vector<Buffer> actual =
              run_graph(*make_vectorized(backend_name, threads, cap), mine, kBatch);
          expect_same_bytes(mine, true, actual, expected);
          if (cap == 1) expect_same_bytes(mine, false, actual, expected);
        }
      }
    }
  }
}

// The weights' form may come with them or be made in the call.
TEST(VectorizedTiles, HaveTheSameBitsWithPlainWeights) {
  for (const std::string& backend_name : vectorized_backends()) {
    SCOPED_TRACE(backend_name);
    const auto backend = make_vectorized(backend_name, 2, 2);
    for (const char* name : kTiled) {
      SCOPED_TRACE(name);
      const Graph packed = prepared(*backend, graph_named(name));
      const Graph plain = ops::fuse(graph_named(name), ops::registry(), backend->offers(), 1);
      const std::vector<Buffer> with = run_graph(*backend, packed, 3);
      const std::vector<Buffer> without = run_graph(*backend, plain, 3);
      for (size_t i = 0; i < plain.values.size(); ++i) {
        const graph::ValueId same = graph::find_value(packed, plain.values[i].name);
        ASSERT_TRUE(same.valid());
        EXPECT_TRUE(with[same.index()].same_contents(without[i])) << plain.values[i].name;
      }
    }
  }
}

// Rows of an image are tiled from the block's first one.
TEST(VectorizedTiles, AgreeWithTheReferenceInBlocksOfRows) {
  for (const std::string& backend_name : vectorized_backends()) {
    SCOPED_TRACE(backend_name);
    constexpr int64_t kBatch = 2;
    const auto reference = backend::make_backend("reference", {});
    for (const char* name : {"tiled_pieces", "tiled_odd", "tiled_unevenly", "tiled_large"}) {
      SCOPED_TRACE(name);
      const std::vector<Buffer> expected = run_graph(*reference, graph_named(name), kBatch);
      for (int64_t rows : {1, 2, 4, 8}) {
        backend::KernelSetOptions options;
        options.threads = 2;
        options.caps.emplace_back("rows", rows);
        const auto backend = backend::make_backend(backend_name, options);
        const Graph mine = prepared(*backend, graph_named(name));
        expect_close(mine, run_graph(*backend, mine, kBatch), graph_named(name), expected, 2e-5);
      }
    }
  }
}

// A layer cut along its units computes the same bits in buffers of any width.
TEST(VectorizedDense, CutUnitsDoNotDependOnStrides) {
  for (const std::string& backend_name : vectorized_backends()) {
    SCOPED_TRACE(backend_name);
    constexpr int64_t kBatch = 6;
    const auto backend = make_vectorized(backend_name, 2, 0, 16);
    const Graph graph = graph_named("wide");
    const std::vector<Buffer> whole = run_graph(*backend, graph, kBatch);
    std::vector<Buffer> values = filled_values(graph, kBatch);
    const NodeId node = node_of(graph, "dense");
    const graph::Node& dense = graph.node(node);
    // Columns [16, 32) of the weight in a buffer of their own.
    constexpr int64_t kInner = 300, kUnits = 70, kFirst = 16, kWidth = 16;
    std::vector<float> w(kInner * kWidth), b(kWidth), y(kBatch * kWidth);
    const auto* all = values[dense.inputs[1].index()].as<float>();
    for (int64_t k = 0; k < kInner; ++k) {
      for (int64_t u = 0; u < kWidth; ++u) w[k * kWidth + u] = all[k * kUnits + kFirst + u];
    }
    const auto* bias = values[dense.inputs[2].index()].as<float>();
    std::copy(bias + kFirst, bias + kFirst + kWidth, b.begin());
    backend::KernelRequest request{graph, node, kBatch, {kBatch, kWidth}, {"", "", ""}, {},
                                   {},    {},   {}};
    request.input_dims = {{kBatch, kInner}, {kInner, kWidth}, {kWidth}};
    request.output_dims = {{kBatch, kWidth}};
    for (const auto& dims : request.input_dims) {
      request.input_strides.push_back(backend::dense_strides(dims));
    }
    request.output_strides = {{kWidth, 1}};
    const auto kernel = backend->make_kernel(request);
    Buffer scratch(
        backend->catalog().scratch(graph, node, kBatch, request.extents, request.forms).size());
    const std::vector<backend::Operand> in = {
        {values[dense.inputs[0].index()].data(), request.input_dims[0], request.input_strides[0]},
        {reinterpret_cast<std::byte*>(w.data()), request.input_dims[1], request.input_strides[1]},
        {reinterpret_cast<std::byte*>(b.data()), request.input_dims[2], request.input_strides[2]}};
    const std::vector<backend::Operand> out = {{reinterpret_cast<std::byte*>(y.data()),
                                                request.output_dims[0], request.output_strides[0]}};
    const std::vector<int64_t> begin = {0, kFirst};
    kernel->run({in, out, scratch.data(), begin, request.extents, true, &ops_test::test_step()});
    EXPECT_TRUE(scratch.guards_intact());
    const auto* expected = whole[dense.outputs[0].index()].as<float>();
    for (int64_t row = 0; row < kBatch; ++row) {
      for (int64_t u = 0; u < kWidth; ++u) {
        EXPECT_EQ(y[row * kWidth + u], expected[row * kUnits + kFirst + u]);
      }
    }
  }
}

// A fused relu lets a NaN through, and makes no negative zeros.
TEST(VectorizedRelu, KeepsNansAndMakesNoNegativeZeros) {
  for (const std::string& backend_name : vectorized_backends()) {
    SCOPED_TRACE(backend_name);
    const auto backend = make_vectorized(backend_name, 2);
    for (const char* name : {"first_layer", "middle_layer", "wide"}) {
      const Graph mine = prepared(*backend, graph_named(name));
      std::vector<Buffer> values = filled_values(mine, 2);
      values[mine.inputs[0].index()].as<float>()[5] = std::numeric_limits<float>::quiet_NaN();
      const bool dense = std::string_view(name) == "wide";
      const NodeId node = node_of(mine, dense ? "dense" : "conv2d");
      ops_test::evaluate(*backend, mine, 2, ops_test::Blocks::kCatalog, node.index() + 1, values);
      const Buffer& y = values[mine.node(node).outputs[0].index()];
      size_t nans = 0;
      size_t zeros = 0;
      for (size_t i = 0; i < y.size() / sizeof(float); ++i) {
        const float v = y.as<float>()[i];
        nans += std::isnan(v) ? 1 : 0;
        zeros += v == 0.0f ? 1 : 0;
        EXPECT_TRUE(std::isnan(v) || !std::signbit(v)) << name << " at " << i << ": " << v;
      }
      EXPECT_GT(nans, 0u) << name;
      EXPECT_GT(zeros, 0u) << name;
    }
  }
}

}  // namespace
}  // namespace plimsoll::backend_test
