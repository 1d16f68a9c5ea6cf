// Every node of every case that may be of bfloat16, against the same node of float32.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "backend/kernel/backends.h"
#include "backend/kernel/region.h"
#include "base/bfloat16.h"
#include "base/error.h"
#include "ops/cases.h"
#include "ops/evaluate.h"
#include "ops/registry.h"

namespace plimsoll::ops_test {
namespace {

using backend::Backend;
using graph::Graph;
using graph::GraphBuilder;
using graph::NodeId;

// Half a unit in the last of eight binary places, and what float32 itself may be off.
constexpr double kRounding = 1.0 / 256;
constexpr double kSums = 1e-5;

// One node by itself, on inputs of these types; nullopt where the operator refuses them.
std::optional<Graph> node_alone(const graph::Node& node, std::span<const graph::ValueType> types) {
  GraphBuilder builder(ops::registry());
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < types.size(); ++i) {
    inputs.push_back(builder.input("input" + std::to_string(i), types[i]));
  }
  try {
    builder.add(node.op->name(), "node", std::move(inputs), node.attributes);
  } catch (const Error&) {
    return std::nullopt;
  }
  return builder.finish();
}

// The first way that the operator takes to have some of its inputs in bfloat16, the first among
// them: all, or the first so many of one type.
std::optional<Graph> in_bf16(const graph::Node& node, std::vector<graph::ValueType> types) {
  std::vector<size_t> floats;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].dtype == DType::kFloat32) floats.push_back(i);
  }
  if (floats.empty() || floats[0] != 0 || types[0].shape.rank() == 0) return std::nullopt;
  for (size_t count = floats.size(); count > 0; --count) {
    // The last of them may be a weight after operands that stay what they are.
    std::vector<graph::ValueType> tried = types;
    for (size_t i = 0; i < count; ++i) tried[floats[i]].dtype = DType::kBFloat16;
    if (auto alone = node_alone(node, tried)) return alone;
  }
  return std::nullopt;
}

// The same numbers in another type; from float32 they are rounded.
Buffer converted(const Buffer& from, const graph::ValueType& to, DType from_type, int64_t batch) {
  if (to.dtype == from_type) return from;
  Buffer result = make_buffer(to, batch);
  for (size_t i = 0; i < result.size() / element_bytes(to.dtype).size(); ++i) {
    if (to.dtype == DType::kBFloat16) {
      result.as<uint16_t>()[i] = bfloat16_of_float(from.as<float>()[i]);
    } else {
      result.as<float>()[i] = float_of_bfloat16(from.as<uint16_t>()[i]);
    }
  }
  return result;
}

std::vector<double> numbers_of(const Buffer& buffer, const graph::ValueType& type, int64_t batch) {
  graph::ValueType wide = type;
  if (type.dtype == DType::kBFloat16) wide.dtype = DType::kFloat32;
  return to_doubles(converted(buffer, wide, type.dtype, batch), wide.dtype);
}

// More rows than a kernel widens at once, and some left over.
Case many_rows() {
  return {.name = "many_rows", .build = [](CaseBuilder& c) {
            const auto of = [](int64_t n) { return Dim::constant(n); };
            const ValueId x = c.input("x", {Dim::batch(), of(30), of(29), of(24)});
            const ValueId b = c.input("b", {of(24)});
            const ValueId gamma = c.input("gamma", {of(24)}, Fill::kPositive);
            const ValueId biased = c.call("bias_add", {x, b});
            const ValueId y = c.call("activation", {biased}, {{"kind", "relu"}});
            const ValueId sum = c.call("add", {y, x});
            const ValueId moments = c.call("channel_moments", {sum});
            c.result(c.call("batch_norm", {sum, moments, gamma},
                            {{"epsilon", 1e-3}, {"scale", true}, {"center", false}}));
          }};
}

// The same in groups, which a kernel widens in parts.
Case many_rows_of_groups() {
  return {.name = "many_rows_of_groups", .build = [](CaseBuilder& c) {
            const auto of = [](int64_t n) { return Dim::constant(n); };
            const ValueId x = c.input("x", {Dim::batch(), of(30), of(29), of(24)});
            const ValueId beta = c.input("beta", {of(24)});
            c.result(c.call(
                "batch_norm_groups", {x, beta},
                {{"epsilon", 1e-3}, {"group", int64_t{2}}, {"scale", false}, {"center", true}}));
          }};
}

std::vector<Case> cases_and_many_rows() {
  std::vector<Case> cases = all_cases();
  cases.push_back(many_rows());
  cases.push_back(many_rows_of_groups());
  return cases;
}

class BFloat16Test : public testing::TestWithParam<std::string> {};

// Outputs of one node: bfloat16 within its rounding of what float32 gives, float32 as close as
// ever.
void expect_close(const Graph& bf16, const std::vector<Buffer>& got, const Graph& wide,
                  const std::vector<Buffer>& expected, int64_t batch) {
  for (ValueId output : bf16.nodes[0].outputs) {
    const graph::ValueType& type = bf16.value(output).type;
    if (!is_floating(type.dtype)) {
      // Winners may differ where rounding made a tie; the gradients' tests see what they do.
      continue;
    }
    const std::vector<double> a = numbers_of(got[output.index()], type, batch);
    const std::vector<double> e =
        numbers_of(expected[output.index()], wide.value(output).type, batch);
    double most = 1e-30;
    for (double x : e) most = std::max(most, std::abs(x));
    const double rounding = type.dtype == DType::kBFloat16 ? kRounding : 0.0;
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], e[i], rounding * std::abs(e[i]) + kSums * most)
          << bf16.nodes[0].op->name() << " element " << i;
    }
  }
}

// Operators with a bfloat16 form that some case has.
constexpr const char* kWithBFloat16[] = {"accumulate",
                                         "activation",
                                         "activation_grad",
                                         "add",
                                         "avg_pool2d",
                                         "avg_pool2d_grad",
                                         "batch_norm",
                                         "batch_norm_grad",
                                         "batch_norm_groups",
                                         "batch_norm_groups_grad",
                                         "batch_norm_inference",
                                         "batch_norm_inference_grad",
                                         "batch_norm_inference_sums",
                                         "batch_norm_sums",
                                         "bias_add",
                                         "bias_grad",
                                         "cast",
                                         "channel_moments",
                                         "concat",
                                         "conv2d",
                                         "conv2d_grad_input",
                                         "conv2d_grad_kernel",
                                         "conv2d_pool",
                                         "conv2d_pool_grad_input",
                                         "conv2d_pool_grad_kernel",
                                         "crop2d",
                                         "dense",
                                         "dense_grad_input",
                                         "dense_grad_kernel",
                                         "dense_grad_update",
                                         "dropout",
                                         "fold_batch",
                                         "global_average_pool2d",
                                         "global_max_pool2d",
                                         "max_pool2d",
                                         "max_pool2d_grad",
                                         "moving_moments",
                                         "multiply",
                                         "pad_axis",
                                         "reshape",
                                         "scale_shift",
                                         "slice",
                                         "spatial_dropout",
                                         "subtract",
                                         "transpose",
                                         "unfold_batch",
                                         "upsample2d",
                                         "zero_pad2d"};

TEST_P(BFloat16Test, IsFloat32OnRoundedInputsRoundedOnce) {
  const std::unique_ptr<Backend> reference = backend::make_backend("reference", {});
  const std::unique_ptr<Backend> tested = backend::make_backend(GetParam(), {});
  std::set<std::string, std::less<>> met;
  for (const Case& test_case : cases_and_many_rows()) {
    if (!test_case.only.empty()) continue;
    SCOPED_TRACE(test_case.name);
    const int64_t batch = test_case.batch;
    const BuiltCase built = build_case(test_case, DType::kFloat32);
    std::vector<Buffer> all = fill_values(built, batch);
    evaluate(*reference, built.graph, batch, Blocks::kWhole, built.graph.nodes.size(), all);
    for (size_t n = 0; n < built.graph.nodes.size(); ++n) {
      const graph::Node& node = built.graph.nodes[n];
      const std::vector<graph::ValueType> types = graph::input_types(built.graph, NodeId(n));
      const std::optional<Graph> bf16 = in_bf16(node, types);
      if (!bf16) continue;
      met.emplace(node.op->name());
      std::vector<Buffer> values = fill_values(*bf16, {}, batch);
      const std::optional<Graph> wide = node_alone(node, types);
      ASSERT_TRUE(wide.has_value());
      std::vector<Buffer> expected = fill_values(*wide, {}, batch);
      for (size_t i = 0; i < types.size(); ++i) {
        const graph::ValueType& type = bf16->values[i].type;
        values[i] = converted(all[node.inputs[i].index()], type, types[i].dtype, batch);
        expected[i] = converted(values[i], types[i], type.dtype, batch);
      }
      evaluate(*reference, *wide, batch, Blocks::kWhole, 1, expected);
      evaluate(*tested, *bf16, batch, Blocks::kCatalog, 1, values);
      expect_close(*bf16, values, *wide, expected, batch);
      if (HasFatalFailure()) return;
      // Twice the same bits.
      std::vector<Buffer> again = values;
      evaluate(*tested, *bf16, batch, Blocks::kCatalog, 1, again);
      for (ValueId output : bf16->nodes[0].outputs) {
        EXPECT_TRUE(again[output.index()].same_contents(values[output.index()])) << node.op->name();
      }
    }
  }
  for (const char* op : kWithBFloat16) {
    EXPECT_TRUE(met.contains(op)) << op << " was met in no case";
  }
}

TEST_P(BFloat16Test, ReluIsTheSameFromBits) {
  const std::unique_ptr<Backend> backend = backend::make_backend(GetParam(), {});
  const int64_t batch = 3;
  const graph::ValueType type{
      DType::kBFloat16, {Dim::batch(), Dim::constant(90), Dim::constant(80), Dim::constant(4)}};
  GraphBuilder builder(ops::registry());
  const ValueId dy = builder.input("dy", type);
  const ValueId y = builder.input("y", type);
  builder.add("activation_grad", "node", {dy, y}, {{"kind", "relu"}, {"reference", "y"}});
  const Graph graph = builder.finish();
  std::vector<Buffer> values = fill_values(graph, {}, batch);
  const size_t count = values[0].size() / 2;
  for (size_t i = 0; i < count; ++i) {
    values[0].as<uint16_t>()[i] = bfloat16_of_float(static_cast<float>(i % 251) - 99.5f);
    values[1].as<uint16_t>()[i] = bfloat16_of_float(static_cast<float>(i % 7) - 3.0f);
  }
  Buffer bits((count + 7) / 8);
  const backend::EncoderRequest request{"positive_bits", type, batch};
  const std::unique_ptr<backend::Kernel> encoder = backend->make_encoder(request);
  const std::vector<int64_t> dims = type.shape.at(batch);
  const std::vector<int64_t> strides = backend::dense_strides(dims);
  const backend::Operand from{values[1].data(), dims, strides};
  const backend::Operand to{bits.data(), dims, strides};
  encoder->run({.inputs = {&from, 1}, .outputs = {&to, 1}, .begin = {}, .extents = {}});
  Buffer plain = values[2];
  Buffer packed = values[2];
  const graph::Block block = backend->catalog().block(graph, NodeId(0));
  const std::vector<BlockCall> calls = calls_of(graph, NodeId(0), block, batch);
  Buffer* plain_inputs[] = {&values[0], &values[1]};
  Buffer* packed_inputs[] = {&values[0], &bits};
  Buffer* plain_output[] = {&plain};
  Buffer* packed_output[] = {&packed};
  run_calls({*backend, graph, NodeId(0), batch}, calls, plain_inputs, plain_output);
  run_calls({*backend, graph, NodeId(0), batch, {"", "positive_bits"}}, calls, packed_inputs,
            packed_output);
  EXPECT_TRUE(plain.same_contents(packed));
  EXPECT_EQ(plain.as<uint16_t>()[4], values[0].as<uint16_t>()[4]);
  EXPECT_EQ(plain.as<uint16_t>()[3], 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, BFloat16Test, testing::ValuesIn(backend::computing_backends()));

TEST(BFloat16, RoundsToNearestAndTiesToEven) {
  const auto rounded = [](float x) { return float_of_bfloat16(bfloat16_of_float(x)); };
  EXPECT_EQ(rounded(1.0f), 1.0f);
  EXPECT_EQ(rounded(1.0f + 1.0f / 256), 1.0f);               // a tie: to the even one below
  EXPECT_EQ(rounded(1.0f + 3.0f / 256), 1.0f + 4.0f / 256);  // a tie: to the even one above
  EXPECT_EQ(rounded(1.0f + 1.01f / 256), 1.0f + 2.0f / 256);
  EXPECT_EQ(rounded(-0.0f), 0.0f);
  EXPECT_TRUE(std::signbit(rounded(-0.0f)));
  EXPECT_TRUE(std::isinf(rounded(3.4e38f)));
  EXPECT_TRUE(std::isnan(rounded(std::nanf("1"))));
  EXPECT_TRUE(std::isnan(rounded(-std::nanf("0x3fffff"))));
}

}  // namespace
}  // namespace plimsoll::ops_test
