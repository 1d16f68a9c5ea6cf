// Kernels that read and write bfloat16 themselves, of every instruction set that this processor
// has: the bits of the float32 kernel on widened operands, rounded once.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_kernels.h"
#include "backend/kernel/region.h"
#include "base/bfloat16.h"
#include "graph/builder.h"
#include "ops/activation_kinds.h"
#include "ops/buffer.h"
#include "ops/evaluate.h"
#include "ops/registry.h"
#include "unit/backend/instruction_sets.h"

namespace plimsoll::backend::cpu {
namespace {

using graph::Attributes;
using graph::ValueType;
using ops_test::Buffer;

Dim of(int64_t n) { return Dim::constant(n); }

// One node by itself. What the operator computes of its first operand is bfloat16; `wide` are the
// operands that are float32 all the same.
struct Node {
  std::string op;
  std::vector<Shape> shapes;
  std::vector<size_t> wide = {};
  Attributes attributes = {};
  std::vector<size_t> winners = {};  // operands of uint8
  bool specials = false;             // NaN, infinities and denormals among the numbers
  bool every = false;                // the last operand holds every number in turn
  std::string form = "";             // of operand 1
};

bool contains(const std::vector<size_t>& list, size_t i) {
  return std::find(list.begin(), list.end(), i) != list.end();
}

graph::Graph graph_of(const Node& node, DType values) {
  graph::GraphBuilder builder(ops::registry());
  std::vector<graph::ValueId> inputs;
  for (size_t i = 0; i < node.shapes.size(); ++i) {
    DType dtype = contains(node.wide, i) ? DType::kFloat32 : values;
    if (contains(node.winners, i)) dtype = DType::kUInt8;
    inputs.push_back(builder.input("input" + std::to_string(i), {dtype, node.shapes[i]}));
  }
  builder.add(node.op, "node", std::move(inputs), node.attributes);
  return builder.finish();
}

// A number of seven binary places, so that it is one of bfloat16.
float number(size_t i, size_t operand, bool specials) {
  if (specials && operand == 0) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    if (i % 89 == 3) return std::nanf("");
    if (i % 89 == 7) return -kInfinity;
    if (i % 89 == 11) return kInfinity;
    if (i % 89 == 17) return 1e-39F;
    if (i % 89 == 23) return -0.0F;
    if (i % 89 == 29) return 3.3e38F;
  }
  const float x = static_cast<float>((i * 7919 + operand * 131) % 1009) / 252.0F - 2.0F;
  return float_of_bfloat16(bfloat16_of_float(x));
}

Buffer filled(const ValueType& type, int64_t batch, size_t operand, const Node& node) {
  Buffer buffer = ops_test::make_buffer(type, batch);
  const size_t count = buffer.size() / element_bytes(type.dtype).size();
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits = bfloat16_of_float(number(i, operand, node.specials));
    if (node.every && operand + 1 == node.shapes.size()) bits = static_cast<uint16_t>(i);
    // Moments and variances are no less than 0 here.
    const float x = float_of_bfloat16(bits);
    const bool positive = contains(node.wide, operand);
    if (type.dtype == DType::kFloat32) buffer.as<float>()[i] = positive ? std::abs(x) + 0.25F : x;
    if (type.dtype == DType::kBFloat16) buffer.as<uint16_t>()[i] = bits;
    if (type.dtype == DType::kUInt8) buffer.as<uint8_t>()[i] = static_cast<uint8_t>(i * 7 % 11);
  }
  if (operand == 1 && !node.form.empty()) {
    for (size_t i = 0; i < buffer.size(); ++i) {
      buffer.as<uint8_t>()[i] = static_cast<uint8_t>(i * 37 % 251);
    }
  }
  return buffer;
}

// What the node's kernel gives; nothing where there is none.
std::vector<Buffer> run(const Node& node, DType values, int64_t batch, const CpuOptions& options,
                        bool first) {
  const graph::Graph graph = graph_of(node, values);
  const graph::NodeId id(0);
  std::vector<int64_t> begin;
  std::vector<int64_t> extents;
  for (const graph::Axis& axis : graph::axes_of(graph, id)) {
    extents.push_back(axis.extent.at(batch));
    begin.push_back(0);
  }
  const std::vector<std::string> forms = {"", node.form};
  const NodeFacts facts =
      node_facts(graph, id, batch, extents,
                 std::span(forms).first(std::min(forms.size(), node.shapes.size())));
  const CpuKernel made = make_cpu_kernel(facts, options);
  if (made.kernel == nullptr) return {};
  std::vector<std::vector<int64_t>> dims;
  std::vector<std::vector<int64_t>> strides;
  std::vector<Buffer> inputs, outputs;
  std::vector<Operand> from, to;
  const auto add = [&](const ValueType& type, std::vector<Buffer>& buffers, Buffer buffer) {
    buffers.push_back(std::move(buffer));
    dims.push_back(type.shape.at(batch));
    strides.push_back(dense_strides(dims.back()));
  };
  for (size_t i = 0; i < facts.inputs.size(); ++i) {
    add(facts.inputs[i], inputs, filled(facts.inputs[i], batch, i, node));
  }
  for (const ValueType& type : facts.outputs)
    add(type, outputs, ops_test::make_buffer(type, batch));
  size_t at = 0;
  for (Buffer& b : inputs) from.push_back({b.data(), dims[at], strides[at]}), ++at;
  for (Buffer& b : outputs) to.push_back({b.data(), dims[at], strides[at]}), ++at;
  for (Buffer& b : outputs) std::memset(b.data(), 0, b.size());
  std::vector<std::byte> scratch(made.scratch.size() + 64);
  auto* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
  made.kernel->run({.inputs = from,
                    .outputs = to,
                    .scratch = aligned,
                    .begin = begin,
                    .extents = extents,
                    .first = first,
                    .step = &ops_test::test_step()});
  for (const Buffer& b : outputs) EXPECT_TRUE(b.guards_intact()) << node.op;
  return outputs;
}

void expect_rounded(const Node& node, int64_t batch, const CpuOptions& options, bool first = true) {
  SCOPED_TRACE(node.op + " " + to_string(node.shapes[0]) + " batch " + std::to_string(batch) +
               " isa " + std::to_string(static_cast<int>(options.isa)) + " threads " +
               std::to_string(options.parts));
  const std::vector<Buffer> expected = run(node, DType::kFloat32, batch, options, first);
  const std::vector<Buffer> got = run(node, DType::kBFloat16, batch, options, first);
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(got.size(), expected.size());
  for (size_t o = 0; o < got.size(); ++o) {
    if (got[o].size() == expected[o].size()) {
      EXPECT_TRUE(got[o].same_contents(expected[o])) << "output " << o;
      continue;
    }
    ASSERT_EQ(2 * got[o].size(), expected[o].size());
    for (size_t i = 0; i < got[o].size() / 2; ++i) {
      ASSERT_EQ(got[o].as<uint16_t>()[i], bfloat16_of_float(expected[o].as<float>()[i]))
          << "output " << o << " element " << i << ", " << expected[o].as<float>()[i];
    }
  }
}

void expect_rounded_everywhere(const Node& node, std::initializer_list<int64_t> batches) {
  for (Isa isa : instruction_sets()) {
    for (int threads : {1, 2}) {
      for (int64_t batch : batches) {
        expect_rounded(node, batch, {isa, threads});
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// Whole vectors and parts of them, one number, groups of rows with some left over.
constexpr int64_t kChannels[] = {1, 3, 16, 24, 37, 64, 77, 130, 300};

TEST(BFloat16Loops, ElementByElement) {
  for (int64_t width : {1, 7, 16, 1023, 33000}) {
    const Shape x = {Dim::batch(), of(width)};
    const std::vector<Shape> two = {x, x};
    for (const char* op : {"add", "subtract", "multiply", "accumulate"}) {
      expect_rounded_everywhere({.op = op, .shapes = two, .specials = true}, {1, 3});
    }
    for (const char* op : {"add", "subtract", "multiply"}) {
      expect_rounded_everywhere({.op = op, .shapes = {x, Shape()}, .specials = true}, {3});
    }
    expect_rounded_everywhere({.op = "scale_shift",
                               .shapes = {x},
                               .attributes = {{"scale", 0.3}, {"offset", -1.5}},
                               .specials = true},
                              {1, 3});
    expect_rounded_everywhere({.op = "dropout",
                               .shapes = {x},
                               .attributes = {{"rate", 0.4}, {"site", int64_t{17}}},
                               .specials = true},
                              {1, 3});
  }
}

TEST(BFloat16Loops, ReluFromItsBits) {
  for (int64_t width : {1, 7, 8, 24, 37, 1000, 33000}) {
    const Shape x = {Dim::batch(), of(width)};
    expect_rounded_everywhere({.op = "activation_grad",
                               .shapes = {x, x},
                               .attributes = {{"kind", "relu"}, {"reference", "y"}},
                               .specials = true,
                               .form = "positive_bits"},
                              {1, 3});
  }
}

TEST(BFloat16Loops, SumsOverRows) {
  for (int64_t channels : kChannels) {
    const Shape x = {Dim::batch(), of(channels)};
    const Shape pair = {of(2), of(channels)};
    const Shape one = {of(channels)};
    const Attributes epsilon = {{"epsilon", 1e-3}};
    for (const Node& node :
         {Node{.op = "bias_grad", .shapes = {x}}, Node{.op = "channel_moments", .shapes = {x}},
          Node{.op = "batch_norm_sums", .shapes = {x, x, pair}, .wide = {2}, .attributes = epsilon},
          Node{.op = "batch_norm_inference_sums",
          .shapes = {x, x, one, one},
          .wide = {2, 3},
          .attributes = epsilon},
          Node{.op = "moving_moments",
          .shapes = {x, one, one},
          .wide = {1, 2},
          .attributes = {{"momentum", 0.9}, {"group", int64_t{700}}}}}) {
      expect_rounded_everywhere(node, {1, 6, 67, 700});
    }
  }
}

TEST(BFloat16Loops, NumbersOfChannels) {
  for (int64_t channels : kChannels) {
    const Shape x = {Dim::batch(), of(channels)};
    const Shape pair = {of(2), of(channels)};
    const Shape one = {of(channels)};
    const Attributes both = {{"epsilon", 1e-3}, {"scale", true}, {"center", true}};
    const Attributes scale = {{"epsilon", 1e-3}, {"scale", true}};
    for (const Node& node : {Node{.op = "bias_add", .shapes = {x, one}, .wide = {1}},
                             Node{.op = "batch_norm",
                             .shapes = {x, pair, one, one},
                             .wide = {1, 2, 3},
                             .attributes = both},
                             Node{.op = "batch_norm_grad",
                             .shapes = {x, x, pair, pair, one},
                             .wide = {2, 3, 4},
                             .attributes = scale},
                             Node{.op = "batch_norm_inference",
                             .shapes = {x, one, one, one, one},
                             .wide = {1, 2, 3, 4},
                             .attributes = both},
                             Node{.op = "batch_norm_inference_grad",
                             .shapes = {x, one, one},
                             .wide = {1, 2},
                             .attributes = scale}}) {
      Node with_specials = node;
      with_specials.specials = true;
      expect_rounded_everywhere(with_specials, {1, 6, 67, 700});
    }
    const Attributes group = {
        {"epsilon", 1e-3}, {"group", int64_t{700}}, {"scale", true}, {"center", true}};
    expect_rounded_everywhere(
        {.op = "batch_norm_groups", .shapes = {x, one, one}, .wide = {1, 2}, .attributes = group},
        {1, 6, 67, 700});
    expect_rounded_everywhere(
        {.op = "batch_norm_groups_grad", .shapes = {x, x, one}, .wide = {2}, .attributes = group},
        {1, 6, 67, 700});
  }
}

TEST(BFloat16Loops, Poolings) {
  for (int64_t channels : {1, 5, 16, 37}) {
    const Shape x = {Dim::batch(), of(9), of(7), of(channels)};
    for (int64_t size : {2, 3}) {
      const bool same = size == 3;
      const Shape y = {Dim::batch(), of(same ? 5 : 4), of(same ? 4 : 3), of(channels)};
      Attributes window = {
          {"pool_size", std::vector<int64_t>{size, size}},
          {"strides", std::vector<int64_t>{2, 2}},
          {"padding", same ? std::vector<int64_t>{1, 1, 1, 1} : std::vector<int64_t>{0, 0, 0, 0}}};
      Attributes back = window;
      back.set("input_shape", std::vector<int64_t>{9, 7, channels});
      for (const Node& node :
           {Node{.op = "max_pool2d", .shapes = {x}, .attributes = window, .specials = true},
            Node{.op = "avg_pool2d", .shapes = {x}, .attributes = window},
            Node{.op = "max_pool2d_grad", .shapes = {y, y}, .attributes = back, .winners = {1}},
            Node{.op = "avg_pool2d_grad", .shapes = {y}, .attributes = back}}) {
        expect_rounded_everywhere(node, {1, 3});
      }
    }
    expect_rounded_everywhere({.op = "global_average_pool2d", .shapes = {x}}, {1, 3});
    expect_rounded_everywhere(
        {.op = "global_average_pool2d_grad",
         .shapes = {{Dim::batch(), of(channels)}},
         .attributes = {{"input_shape", std::vector<int64_t>{9, 7, channels}}}},
        {1, 3});
  }
}

// Every number of bfloat16, and some once more.
TEST(BFloat16Loops, Activations) {
  const Shape x = {Dim::batch(), of(13)};
  for (const char* kind :
       {"relu", "relu6", "leaky_relu", "sigmoid", "tanh", "elu", "selu", "softsign", "gelu", "silu",
        "hard_sigmoid", "hard_silu", "hard_tanh", "softplus", "exponential", "linear"}) {
    Attributes attributes = {{"kind", kind}};
    const Node values = {
        .op = "activation", .shapes = {x}, .attributes = attributes, .every = true};
    const bool from_y = ops::slope_needs_output(ops::read_activation(attributes));
    attributes.set("reference", from_y ? "y" : "x");
    const Node slopes = {
        .op = "activation_grad", .shapes = {x, x}, .attributes = attributes, .every = true};
    expect_rounded_everywhere(values, {1, 5042});
    expect_rounded_everywhere(slopes, {1, 5042});
  }
}

TEST(BFloat16Loops, EncodersOfBits) {
  for (int64_t width : {1, 7, 8, 37, 1000, 33000}) {
    const Node node = {.op = "activation", .shapes = {{Dim::batch(), of(width)}}, .specials = true};
    for (Isa isa : instruction_sets()) {
      std::vector<Buffer> bits;
      for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const ValueType type = {dtype, node.shapes[0]};
        const auto encoder = make_cpu_encoder({"positive_bits", type, 3}, {isa, 2});
        ASSERT_NE(encoder, nullptr);
        Buffer values = filled(type, 3, 0, node);
        Buffer encoded(static_cast<size_t>(3 * ((width + 7) / 8)));
        const std::vector<int64_t> dims = {3, width};
        const std::vector<int64_t> strides = dense_strides(dims);
        const Operand from = {values.data(), dims, strides};
        const Operand to = {encoded.data(), dims, strides};
        encoder->run({.inputs = {&from, 1}, .outputs = {&to, 1}, .begin = {}, .extents = {}});
        EXPECT_TRUE(encoded.guards_intact());
        bits.push_back(std::move(encoded));
      }
      EXPECT_TRUE(bits[0].same_contents(bits[1])) << width;
    }
  }
}

}  // namespace
}  // namespace plimsoll::backend::cpu
