// Which blocks the kernel set has, on the shapes that they were chosen for.

#include "backend/cpu/blocks.h"

#include <gtest/gtest.h>

#include "backend/cpu/conv/patches.h"
#include "backend/cpu/cost_model.h"
#include "backend/cpu/node_facts.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "unit/backend/kernel_graphs.h"

namespace plimsoll::backend_test {
namespace {

using backend::cpu::Blocks;
using graph::Graph;
using graph::GraphBuilder;
using graph::NodeId;
using graph::ValueId;

CpuInfo two_cores() {
  CpuInfo cpu;
  cpu.isa = "avx512";
  cpu.l1d_bytes = 32_KiB;
  cpu.l2_bytes = 1_MiB;
  cpu.l3_bytes = 32_MiB;
  return cpu;
}

backend::KernelSetOptions options(int64_t batch_cap = 0, int block_set = 0) {
  backend::KernelSetOptions o;
  o.parts = o.threads = 2;
  o.block_set = block_set;
  if (batch_cap > 0) o.caps.emplace_back("batch", batch_cap);
  return o;
}

// Convolution stages with 2 × 2 pooling, then dense layers, and a loss.
Graph network(int64_t size, int64_t channels, const std::vector<int64_t>& filters,
              const std::vector<int64_t>& units) {
  GraphBuilder b(ops::registry());
  const auto weight = [&](const std::string& name, std::vector<int64_t> dims) {
    return b.read(b.state({.name = name, .type = {DType::kFloat32, fixed_shape(dims)}}));
  };
  ValueId x = b.input(
      "x",
      {DType::kFloat32, filters.empty() ? batch_shape(std::vector<int64_t>{size})
                                        : batch_shape(std::vector<int64_t>{size, size, channels})});
  int64_t features = size;
  for (size_t i = 0; i < filters.size(); ++i) {
    const std::string name = "conv" + std::to_string(i);
    x = b.call("conv2d", name, {x, weight(name + "/w", {3, 3, channels, filters[i]})},
               {{"filters", filters[i]},
                {"kernel_size", std::vector<int64_t>{3, 3}},
                {"strides", std::vector<int64_t>{1, 1}},
                {"padding", std::vector<int64_t>{0, 0, 0, 0}},
                {"dilation_rate", std::vector<int64_t>{1, 1}},
                {"groups", int64_t{1}},
                {"use_bias", false},
                {"activation", "relu"}});
    const NodeId pool = b.add("max_pool2d", "pool" + std::to_string(i), {x},
                              {{"pool_size", std::vector<int64_t>{2, 2}},
                               {"strides", std::vector<int64_t>{2, 2}},
                               {"padding", std::vector<int64_t>{0, 0, 0, 0}}});
    x = b.graph().node(pool).outputs[0];
    channels = filters[i];
    size = (size - 2) / 2;
    features = size * size * channels;
  }
  if (!filters.empty())
    x = b.call("reshape", "flatten", {x}, {{"shape", std::vector<int64_t>{features}}});
  for (size_t i = 0; i < units.size(); ++i) {
    const std::string name = "dense" + std::to_string(i);
    x = b.call("dense", name, {x, weight(name + "/w", {features, units[i]})},
               {{"units", units[i]}, {"use_bias", false}, {"activation", "linear"}});
    features = units[i];
  }
  b.call("batch_sum", "loss", {x});
  return b.finish();
}

int64_t batch_extent(const Blocks& blocks, const Graph& graph, std::string_view node) {
  const NodeId id = find_node(graph, node);
  EXPECT_TRUE(id.valid()) << node;
  return blocks.block(graph, id)[0];
}

TEST(KernelBlocks, LargeImagesGoOneByOne) {
  const Blocks blocks(two_cores(), options());
  const Graph s0a = network(256, 3, {32, 64}, {1});
  for (const char* node : {"conv0", "pool0", "conv1", "pool1", "flatten", "dense0", "loss"}) {
    EXPECT_EQ(batch_extent(blocks, s0a, node), 1) << node;
  }
}

TEST(KernelBlocks, SmallImagesGoInGroups) {
  const Blocks blocks(two_cores(), options());
  const Graph s1a = network(28, 3, {32}, {10});
  EXPECT_EQ(batch_extent(blocks, s1a, "conv0"), 8);
  EXPECT_EQ(batch_extent(blocks, s1a, "pool0"), 8);
  EXPECT_EQ(batch_extent(blocks, s1a, "dense0"), 16);
  // What follows the dense layer takes its rows.
  EXPECT_EQ(batch_extent(blocks, s1a, "loss"), 16);
}

TEST(KernelBlocks, DenseLayersAfterALongOneTakeItsRows) {
  const Blocks blocks(two_cores(), options());
  const Graph s1c = network(64, 3, {64, 128}, {256, 10});
  EXPECT_EQ(batch_extent(blocks, s1c, "conv1"), 1);
  EXPECT_EQ(batch_extent(blocks, s1c, "dense0"), 16);
  EXPECT_EQ(batch_extent(blocks, s1c, "dense1"), 16);
  const Graph s4 = network(1000, 1, {}, {128, 1});
  EXPECT_EQ(batch_extent(blocks, s4, "dense0"), 64);
  EXPECT_EQ(batch_extent(blocks, s4, "dense1"), 64);
  EXPECT_EQ(batch_extent(blocks, s4, "loss"), 64);
}

// A dense layer over the steps of sequences, and the one after it.
Graph steps_network(int64_t steps, int64_t width, int64_t units) {
  GraphBuilder b(ops::registry());
  ValueId x = b.input("x", {DType::kFloat32, batch_shape(std::vector<int64_t>{steps, width})});
  int64_t features = width;
  for (const int64_t next : {width, units}) {
    const std::string name = "dense" + std::to_string(next);
    const ValueId w =
        b.input(name + "/w", {DType::kFloat32, fixed_shape(std::vector<int64_t>{features, next})});
    x = b.call("dense", name, {x, w},
               {{"units", next}, {"use_bias", false}, {"activation", "linear"}});
    features = next;
  }
  b.call("batch_sum", "loss", {x});
  return b.finish();
}

TEST(KernelBlocks, WeightsBeyondTheCachesMeetMoreRows) {
  const Blocks blocks(two_cores(), options());
  // 1 MiB of weights for 256 rows, 4 MiB for 512.
  const Graph bert = steps_network(128, 512, 2048);
  EXPECT_EQ(batch_extent(blocks, bert, "dense512"), 2);
  EXPECT_EQ(batch_extent(blocks, bert, "dense2048"), 4);
  // Weights that a second cache holds: rows fill the caches.
  EXPECT_EQ(batch_extent(blocks, steps_network(128, 128, 512), "dense128"), 8);
  // Rows enough in one sample.
  EXPECT_EQ(batch_extent(blocks, steps_network(1024, 768, 1024), "dense768"), 1);
}

TEST(KernelBlocks, WithoutAvx512MoreRowsMeetTheWeights) {
  CpuInfo cpu = two_cores();
  cpu.isa = "avx2";
  cpu.l2_bytes = 512_KiB;
  const Blocks blocks(cpu, options());
  const Graph s4 = network(1000, 1, {}, {128, 1});
  EXPECT_EQ(batch_extent(blocks, s4, "dense0"), 128);
  // Long rows lie in the last cache.
  EXPECT_EQ(batch_extent(blocks, network(25088, 1, {}, {256}), "dense0"), 32);
  // One unit is another kernel's, to whose rows the second cache is near enough.
  EXPECT_EQ(batch_extent(blocks, network(25088, 1, {}, {1}), "dense0"), 8);
  cpu.l3_bytes = 8_MiB;
  EXPECT_EQ(batch_extent(Blocks(cpu, options()), network(25088, 1, {}, {256}), "dense0"), 8);
}

TEST(KernelBlocks, WideLayersAreCutAlongTheirUnits) {
  const Blocks blocks(two_cores(), options());
  const Graph vgg = network(25088, 1, {}, {4096});
  const graph::Block block = blocks.block(vgg, find_node(vgg, "dense0"));
  EXPECT_GT(block[1], 0);
  EXPECT_LE(25088 * block[1] * 4, 32 << 20);
  const Graph s1c = network(25088, 1, {}, {256});
  EXPECT_EQ(blocks.block(s1c, find_node(s1c, "dense0"))[1], graph::kWholeAxis);
}

TEST(KernelBlocks, CapsAndBlockSetsHalve) {
  const Graph s4 = network(1000, 1, {}, {128, 1});
  EXPECT_EQ(batch_extent(Blocks(two_cores(), options(4)), s4, "dense0"), 4);
  EXPECT_EQ(batch_extent(Blocks(two_cores(), options(0, 1)), s4, "dense0"), 32);
  EXPECT_EQ(batch_extent(Blocks(two_cores(), options(0, 3)), s4, "loss"), 8);
  EXPECT_EQ(batch_extent(Blocks(two_cores(), options(0, 20)), s4, "dense0"), 1);
}

// While a graph is remembered, each of its nodes is looked at a fixed number of times, however long
// the chain is: its time would else grow with the square of the layers.
TEST(KernelBlocks, LooksAtEachNodeOfAChainOnce) {
  const auto visits = [](size_t layers, int rounds) {
    const Blocks blocks(two_cores(), options());
    const Graph chain = network(64, 1, {}, std::vector<int64_t>(layers, 64));
    const std::shared_ptr<const void> remembered = blocks.remember(chain);
    for (int round = 0; round < rounds; ++round) {
      for (size_t n = 0; n < chain.nodes.size(); ++n) blocks.block(chain, NodeId(n));
    }
    return blocks.visits();
  };
  EXPECT_LE(visits(100, 1), 4 * 100);
  EXPECT_LE(visits(400, 1), 4 * 400);
  EXPECT_EQ(visits(100, 3), visits(100, 1));
}

TEST(KernelBlocks, AreAlikeWhetherAGraphIsRememberedOrNot) {
  const Blocks blocks(two_cores(), options());
  for (const KernelGraph& candidate : all_kernel_graphs()) {
    std::vector<graph::Block> forgotten;
    for (size_t n = 0; n < candidate.graph.nodes.size(); ++n) {
      forgotten.push_back(blocks.block(candidate.graph, NodeId(n)));
    }
    const std::shared_ptr<const void> remembered = blocks.remember(candidate.graph);
    for (size_t n = candidate.graph.nodes.size(); n-- > 0;) {
      EXPECT_EQ(blocks.block(candidate.graph, NodeId(n)), forgotten[n]);
    }
  }
}

// Another graph at the place of one that was remembered is looked at anew.
TEST(KernelBlocks, ForgetAGraphThatNobodyHolds) {
  const Blocks blocks(two_cores(), options());
  Graph graph = network(1000, 1, {}, {128, 1});
  {
    const std::shared_ptr<const void> remembered = blocks.remember(graph);
    EXPECT_EQ(batch_extent(blocks, graph, "loss"), 64);
  }
  graph = network(25088, 1, {}, {128, 1});
  const int64_t extent = batch_extent(blocks, graph, "loss");
  EXPECT_LT(extent, 64);
  const std::shared_ptr<const void> remembered = blocks.remember(graph);
  EXPECT_EQ(batch_extent(blocks, graph, "loss"), extent);
}

// Powers of two, at least one, whatever the graph.
TEST(KernelBlocks, ArePowersOfTwo) {
  const Blocks blocks(two_cores(), options());
  for (const KernelGraph& candidate : all_kernel_graphs()) {
    for (size_t n = 0; n < candidate.graph.nodes.size(); ++n) {
      for (int64_t extent : blocks.block(candidate.graph, NodeId(n))) {
        EXPECT_TRUE(extent == graph::kWholeAxis || (extent > 0 && (extent & (extent - 1)) == 0));
      }
    }
  }
}

TEST(VectorizedKernelSet, NamesWhatKernelsDependOnAndParses) {
  for (const std::string& name : vectorized_backends()) {
    const auto backend = make_vectorized(name, 2, 4);
    const std::string id = backend->catalog().kernel_set();
    EXPECT_EQ(id.rfind(name == "cpu" ? "cpu/r" : "onednn-", 0), 0u) << id;
    EXPECT_NE(id.find("/l2="), std::string::npos) << id;
    EXPECT_EQ(id.find(' '), std::string::npos) << id;
    backend::KernelSetOptions expected;
    expected.parts = 2;
    expected.caps = {{"batch", 4}};
    EXPECT_EQ(backend::parse_kernel_set(id), expected);
    EXPECT_EQ(backend->catalog().part_count(), 2);
    EXPECT_EQ(backend->catalog().thread_count(), 2);
  }
}

Graph convolution(std::vector<int64_t> image, std::vector<int64_t> window, int64_t stride,
                  int64_t filters) {
  GraphBuilder b(ops::registry());
  const ValueId x = b.input("x", {DType::kFloat32, batch_shape(image)});
  const ValueId kernel = b.input(
      "kernel", {DType::kFloat32,
                 fixed_shape(std::vector<int64_t>{window[0], window[1], image[2], filters})});
  b.add("conv2d", "conv", {x, kernel},
        {{"filters", filters},
         {"kernel_size", window},
         {"strides", std::vector<int64_t>{stride, stride}},
         {"padding", std::vector<int64_t>{window[0] - 1, 0, 0, 0}},
         {"dilation_rate", std::vector<int64_t>{1, 1}},
         {"groups", int64_t{1}},
         {"use_bias", false},
         {"activation", "linear"}});
  return b.finish();
}

backend::cpu::NodeFacts facts_of(const Graph& graph) {
  std::vector<int64_t> extents;
  for (const graph::Axis& axis : axes_of(graph, NodeId(0))) extents.push_back(axis.extent.at(1));
  return backend::cpu::node_facts(graph, NodeId(0), 1, extents, {});
}

// Whether a Conv1D of 64 channels over 4096 steps is our own product of patches.
bool is_of_patches(int64_t window, backend::cpu::Isa isa) {
  const Graph graph = convolution({4096, 1, 64}, {window, 1}, 1, 64);
  return backend::cpu::is_sequence_convolution(facts_of(graph), {.isa = isa, .parts = 2});
}

TEST(KernelBlocks, ShortWindowsOverSequencesAreOurOwn) {
  using backend::cpu::Isa;
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2}) {
    EXPECT_TRUE(is_of_patches(2, isa));
    EXPECT_TRUE(is_of_patches(9, isa));
    EXPECT_FALSE(is_of_patches(1, isa));
    // Each thread would hold 96 patches of 256 KiB.
    EXPECT_FALSE(is_of_patches(1024, isa));
  }
  EXPECT_FALSE(is_of_patches(3, Isa::kGeneric));
}

// 4 × 4 windows with strides of 2, as the last convolution of a discriminator.
bool is_heavy(int64_t channels, int64_t filters, int64_t size, backend::cpu::Isa isa) {
  const Graph graph = convolution({size, size, channels}, {4, 4}, 2, filters);
  return backend::cpu::is_heavy_convolution(facts_of(graph), {.isa = isa, .parts = 2});
}

TEST(KernelBlocks, ImagesOfFewPositionsShareAHeavyKernel) {
  using backend::cpu::Isa;
  EXPECT_TRUE(is_heavy(256, 512, 8, Isa::kAvx512));
  EXPECT_FALSE(is_heavy(128, 256, 8, Isa::kAvx512));   // 2 MiB
  EXPECT_FALSE(is_heavy(256, 512, 16, Isa::kAvx512));  // 7 positions a row
  EXPECT_FALSE(is_heavy(256, 512, 8, Isa::kAvx2));
  // Two threads with 96 positions each, of images that have 12.
  const Blocks blocks(two_cores(), options());
  EXPECT_EQ(batch_extent(blocks, convolution({8, 8, 256}, {4, 4}, 2, 512), "conv"), 16);
}

// One lstm of 256 units over 200 steps.
Graph wide_recurrence() {
  GraphBuilder b(ops::registry());
  const ValueId z = b.input("z", {DType::kFloat32, batch_shape(std::vector<int64_t>{200, 1024})});
  const ValueId kernel =
      b.input("kernel", {DType::kFloat32, fixed_shape(std::vector<int64_t>{256, 1024})});
  b.add("lstm", "lstm", {z, kernel}, {{"units", 256}});
  return b.finish();
}

TEST(KernelBlocks, RecurrentCallsHaveSamplesForAllTheirThreads) {
  const Blocks blocks(two_cores(), options());
  EXPECT_EQ(batch_extent(blocks, wide_recurrence(), "lstm"), 16);
}

// At each step all weights are read, for however many samples there are.
TEST(CostModel, RecurrentCallsOfFewSamplesCostMoreASample) {
  const backend::cpu::CostModel costs(two_cores(), options(), false);
  const Graph graph = wide_recurrence();
  const auto each = [&](int64_t samples) {
    const std::vector<int64_t> extents = {samples};
    return costs.seconds(graph, NodeId(0), 32, extents, true) / static_cast<double>(samples);
  };
  EXPECT_GT(each(1), 1.5 * each(2));  // one thread has nothing to do
  EXPECT_GT(each(2), 1.4 * each(4));
  EXPECT_GT(each(4), 1.1 * each(8));
  EXPECT_NEAR(each(16), each(8), 0.05 * each(8));
}

class VectorizedCosts : public testing::TestWithParam<std::string> {};

TEST_P(VectorizedCosts, GrowWithWorkAndFallWithThreads) {
  const auto one = make_vectorized(GetParam(), 1);
  const auto two = make_vectorized(GetParam(), 2);
  for (const KernelGraph& candidate : all_kernel_graphs()) {
    for (size_t n = 0; n < candidate.graph.nodes.size(); ++n) {
      const std::vector<graph::Axis> axes = axes_of(candidate.graph, NodeId(n));
      if (axes.empty()) continue;
      const auto seconds = [&](const backend::Backend& backend, int64_t batch) {
        std::vector<int64_t> extents;
        for (const graph::Axis& axis : axes) extents.push_back(axis.extent.at(batch));
        return backend.catalog().seconds(candidate.graph, NodeId(n), batch, extents);
      };
      EXPECT_GT(seconds(*one, 1), 0.0);
      EXPECT_GT(seconds(*one, 512), seconds(*one, 256)) << candidate.graph.nodes[n].name;
      EXPECT_LE(seconds(*two, 512), seconds(*one, 512) * 1.0001 + 2e-6)
          << candidate.graph.nodes[n].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, VectorizedCosts, testing::ValuesIn(vectorized_backends()));

}  // namespace
}  // namespace plimsoll::backend_test
