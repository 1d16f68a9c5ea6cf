#include "unit/backend/kernel_graphs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <ostream>

#include "base/hash.h"
#include "base/philox.h"
#include "graph/autodiff.h"
#include "ops/evaluate.h"
#include "ops/fuse/fuse.h"
#include "ops/registry.h"

namespace plimsoll::backend_test {
namespace {

using graph::Attributes;
using graph::Graph;
using graph::GraphBuilder;
using graph::NodeId;
using graph::ValueId;
using ops_test::Buffer;

class Maker {
 public:
  GraphBuilder& builder() { return builder_; }
  ValueId input(std::vector<int64_t> dims) {
    targets_.push_back(builder_.input("x" + std::to_string(targets_.size()),
                                      {DType::kFloat32, batch_shape(dims)}));
    return targets_.back();
  }
  ValueId weight(const std::string& name, std::vector<int64_t> dims) {
    targets_.push_back(builder_.read(
        builder_.state({.name = name, .type = {DType::kFloat32, fixed_shape(dims)}})));
    return targets_.back();
  }
  ValueId output(const std::string& op, const std::string& name, std::vector<ValueId> inputs,
                 Attributes attributes) {
    const NodeId node = builder_.add(op, name, std::move(inputs), std::move(attributes));
    return builder_.graph().node(node).outputs[0];
  }
  ValueId cast(ValueId x, DType dtype) {
    const std::string to(to_string(dtype));
    return builder_.call("cast", builder_.graph().value(x).name + "/" + to, {x}, {{"dtype", to}});
  }
  // Loss Σ result · probe, the probe an input: gradients are of unit size.
  Graph finish(ValueId result) {
    const ValueId probe = builder_.input("probe", builder_.type(result));
    const ValueId product = builder_.call("multiply", "product", {result, probe});
    add_gradients(builder_, builder_.call("batch_sum", "loss", {product}), targets_);
    return builder_.finish();
  }

 private:
  GraphBuilder builder_{ops::registry()};
  std::vector<ValueId> targets_;
};

struct ConvolutionCase {
  std::string name;
  int64_t size, channels, filters, kernel, stride, dilation, groups;
  std::vector<int64_t> padding;
  bool bias, relu;
  int64_t column_stride = 0;  // 0: as rows
  bool steps = false;         // rows of one column, as a sequence's
};

// A layer with a kernel and perhaps a bias; `mixed`: its factors and result are bfloat16.
Graph layer_graph(Maker& m, const std::string& op, ValueId x, const std::vector<int64_t>& kernel,
                  const Attributes& attributes, bool mixed) {
  std::vector<ValueId> inputs = {x, m.weight("kernel", kernel)};
  if (mixed) {
    for (ValueId& input : inputs) input = m.cast(input, DType::kBFloat16);
  }
  if (attributes.get_bool("use_bias")) inputs.push_back(m.weight("bias", {kernel.back()}));
  const ValueId y = m.output(op, op == "dense" ? op : "conv", inputs, attributes);
  return m.finish(mixed ? m.cast(y, DType::kFloat32) : y);
}

Graph convolution_graph(const ConvolutionCase& c, bool mixed) {
  Maker m;
  const ValueId x = m.input({c.size, c.steps ? 1 : c.size, c.channels});
  const int64_t width = c.steps ? 1 : c.kernel;
  const int64_t columns = c.steps ? 1 : c.column_stride == 0 ? c.stride : c.column_stride;
  return layer_graph(m, "conv2d", x, {c.kernel, width, c.channels / c.groups, c.filters},
                     {{"filters", c.filters},
                      {"kernel_size", std::vector<int64_t>{c.kernel, width}},
                      {"strides", std::vector<int64_t>{c.stride, columns}},
                      {"padding", c.padding},
                      {"dilation_rate", std::vector<int64_t>{c.dilation, c.steps ? 1 : c.dilation}},
                      {"groups", c.groups},
                      {"use_bias", c.bias},
                      {"activation", c.relu ? "relu" : "linear"}},
                     mixed);
}

struct DenseCase {
  std::string name;
  std::vector<int64_t> dims;
  int64_t units;
  bool bias, relu;
};
Graph dense_graph(const DenseCase& c, bool mixed) {
  Maker m;
  const ValueId x = m.input(c.dims);
  return layer_graph(
      m, "dense", x, {c.dims.back(), c.units},
      {{"units", c.units}, {"use_bias", c.bias}, {"activation", c.relu ? "relu" : "linear"}},
      mixed);
}

Graph pooling_graph(const std::string& op, int64_t size, int64_t channels, int64_t window,
                    int64_t stride, std::vector<int64_t> padding) {
  Maker m;
  const ValueId x = m.input({size, size, channels});
  return m.finish(m.output(op, "pool", {x},
                           {{"pool_size", std::vector<int64_t>{window, window}},
                            {"strides", std::vector<int64_t>{stride, stride}},
                            {"padding", padding}}));
}

// Convolution and 2 × 2 pooling in one node.
struct PooledCase {
  int64_t size;
  int64_t channels;
  int64_t filters;
  std::vector<int64_t> padding;
  int64_t kernel = 3;
  int64_t stride = 1;
  bool bias_and_relu = true;
  int64_t pool_columns = 2;
};
Graph pooled_graph(const PooledCase& c, bool mixed = false) {
  Maker m;
  return layer_graph(m, "conv2d_pool", m.input({c.size, c.size + 1, c.channels}),
                     {c.kernel, c.kernel, c.channels, c.filters},
                     {{"filters", c.filters},
                      {"kernel_size", std::vector<int64_t>{c.kernel, c.kernel}},
                      {"strides", std::vector<int64_t>{c.stride, c.stride}},
                      {"padding", c.padding},
                      {"dilation_rate", std::vector<int64_t>{1, 1}},
                      {"groups", int64_t{1}},
                      {"use_bias", c.bias_and_relu},
                      {"activation", c.bias_and_relu ? "relu" : "linear"},
                      {"pool_size", std::vector<int64_t>{2, c.pool_columns}}},
                     mixed);
}

Graph normalization_graph(int64_t channels) {
  Maker m;
  const ValueId x = m.input({9, 7, channels});
  const ValueId moments = m.builder().call("channel_moments", "moments", {x});
  return m.finish(
      m.output("batch_norm", "norm",
               {x, moments, m.weight("gamma", {channels}), m.weight("beta", {channels})},
               {{"epsilon", 1e-3}, {"scale", true}, {"center", true}}));
}

Graph elementwise_graph(int64_t width) {
  Maker m;
  GraphBuilder& b = m.builder();
  const ValueId x = m.input({13, width});
  const ValueId y = m.input({13, width});
  ValueId z = b.call("bias_add", "bias", {x, m.weight("b", {width})});
  z = b.call("activation", "relu", {z}, {{"kind", "relu"}});
  z = b.call("add", "sum", {z, y});
  z = b.call("dropout", "dropout", {z}, {{"rate", 0.25}, {"site", int64_t{7}}});
  z = b.call("activation", "tanh", {z}, {{"kind", "tanh"}});
  z = b.call("subtract", "difference", {z, y});
  return m.finish(b.call("scale_shift", "scaled", {z}, {{"scale", 0.5}, {"offset", 0.25}}));
}

// A value of `dims` (a weight where `fixed`) that repeats into `wide`; its gradient is the sum.
Graph stretched_graph(const std::vector<int64_t>& dims, const std::vector<int64_t>& wide,
                      bool fixed) {
  Maker m;
  if (!fixed) return m.finish(m.output("broadcast", "wide", {m.input(dims)}, {{"shape", wide}}));
  const ValueId w = m.weight("w", dims);
  const ValueId y = m.output("broadcast", "wide", {w}, {{"shape", wide}, {"batched", true}});
  return m.finish(m.builder().call("add", "sum", {m.input(wide), y}));
}

Graph channel_dropout_graph(const std::vector<int64_t>& dims) {
  Maker m;
  return m.finish(m.output("spatial_dropout", "dropout", {m.input(dims)},
                           {{"rate", 0.25}, {"site", int64_t{9}}}));
}

// `masked`: dimensions of the masks, the first of `dims`.
Graph masked_graph(const std::vector<int64_t>& dims, const std::vector<int64_t>& masked) {
  Maker m;
  GraphBuilder& b = m.builder();
  const ValueId of = b.input("of", {DType::kFloat32, batch_shape(masked)});
  const ValueId mask = b.call("compare", "mask", {of}, {{"kind", "greater"}, {"value", 0.25}});
  const ValueId x = m.input(dims);
  const ValueId y = b.call("apply_mask", "masked", {m.input(dims), mask});
  return m.finish(b.call("select", "selected", {x, y, mask}));
}

Graph global_pooling_graph() {
  Maker m;
  const ValueId x = m.input({11, 13, 21});
  return m.finish(m.output("global_average_pool2d", "pool", {x}, {}));
}

// Numbers of about unit size that depend on the name of the value.
void fill(const graph::Value& value, Buffer& buffer) {
  const Philox stream(Fingerprint().add(value.name).value(), 5);
  stream.fill_normal(0, std::span(buffer.as<float>(), buffer.size() / sizeof(float)));
}

}  // namespace

double worst_difference(const Buffer& actual, const Buffer& expected) {
  double worst = 0;
  double largest = 1e-30;
  for (size_t i = 0; i < expected.size() / sizeof(float); ++i) {
    const double a = actual.as<float>()[i];
    const double e = expected.as<float>()[i];
    largest = std::max(largest, std::abs(e));
    worst = std::isnan(a) != std::isnan(e) ? 1e30 : std::max(worst, std::abs(a - e));
  }
  return worst / largest;
}

void PrintTo(const KernelGraph& graph, std::ostream* out) { *out << graph.name; }

std::vector<KernelGraph> convolution_graphs(bool mixed) {
  const std::vector<int64_t> none = {0, 0, 0, 0};
  const std::vector<int64_t> same = {1, 1, 1, 1};
  const std::vector<ConvolutionCase> cases = {
      {"first_layer", 20, 3, 32, 3, 1, 1, 1, none, true, true},
      {"middle_layer", 17, 32, 48, 3, 1, 1, 1, same, true, true},
      {"one_by_one", 14, 64, 96, 1, 1, 1, 1, none, true, false},
      {"strided", 19, 16, 32, 3, 2, 1, 1, {0, 1, 0, 1}, false, true},
      {"strided_one_by_one", 15, 32, 64, 1, 2, 1, 1, none, false, false},
      // Two halves of its rows would begin at an odd row.
      {"strided_one_by_one_of_odd_halves", 14, 128, 128, 1, 2, 1, 1, none, false, false},
      // The last rows and columns are nobody's; positions in the padding.
      {"strided_points_and_more", 12, 32, 48, 1, 3, 1, 1, none, true, true},
      {"strided_points_unevenly", 12, 32, 48, 1, 2, 1, 1, none, false, false, 11},
      {"strided_points_before_padding", 9, 32, 48, 1, 2, 1, 1, {0, 2, 0, 1}, true, false},
      {"dilated", 16, 16, 32, 3, 1, 2, 1, {2, 2, 2, 2}, true, false},
      {"depthwise", 18, 32, 32, 3, 1, 1, 32, same, true, true},
      {"depthwise_of_many_points", 17, 40, 40, 5, 1, 1, 40, {2, 2, 2, 2}, true, false},
      {"depthwise_strided", 23, 21, 21, 5, 2, 1, 21, {1, 2, 2, 2}, false, true},
      {"depthwise_large", 14, 16, 16, 7, 1, 1, 16, {3, 3, 3, 3}, true, false},
      {"depthwise_dilated", 15, 35, 35, 3, 1, 2, 35, {2, 2, 2, 2}, false, false},
      {"grouped", 12, 32, 64, 3, 1, 1, 4, same, true, false},
      {"odd_channels", 13, 5, 7, 3, 1, 1, 1, same, true, true},
      {"one_channel_points", 8, 1, 3, 1, 1, 1, 1, none, true, true},
      {"few_points", 6, 2, 3, 1, 1, 1, 1, none, true, false},
      {"many_points", 27, 20, 24, 1, 1, 1, 1, none, true, false},
      {"many_points_of_a_vector", 30, 16, 16, 1, 1, 1, 1, none, false, false},
      {"many_odd_points", 24, 13, 71, 1, 1, 1, 1, none, true, true},
      // The last row and column are nobody's.
      {"one_channel_points_strided", 8, 1, 3, 1, 2, 1, 1, none, true, false},
      {"few_points_strided", 10, 3, 5, 1, 2, 1, 1, none, true, false},
      {"few_filters", 6, 2, 3, 3, 1, 1, 1, same, true, true},
      {"even_kernel", 7, 64, 64, 2, 1, 1, 1, {1, 1, 0, 1}, false, false},
      // Several pieces of rows and of columns, the last ones smaller; several images in a piece.
      {"wide_image", 67, 7, 20, 3, 1, 1, 1, same, true, false},
      {"small_images", 5, 9, 40, 3, 1, 1, 1, same, true, true},
      {"strided_and_dilated", 23, 8, 16, 3, 2, 3, 1, {2, 3, 2, 3}, false, false},
      {"stride_beyond_kernel", 17, 8, 16, 2, 3, 1, 1, none, true, false},
      {"sequence", 70, 24, 40, 3, 1, 4, 1, {8, 0, 0, 0}, true, true, 0, true},
      {"sequence_strided", 61, 16, 20, 5, 2, 1, 1, {2, 2, 0, 0}, false, false, 0, true},
      {"sequence_of_few_channels", 40, 3, 20, 5, 1, 1, 1, {2, 2, 0, 0}, true, false, 0, true},
      {"large_kernel", 30, 3, 16, 7, 2, 1, 1, {2, 3, 2, 3}, true, true},
      // Windows of 3 × 3 that are tiled: several pieces of channels; numbers that fill no vector;
      // odd sizes; padding on one side; more tiles than a chunk has.
      {"tiled_pieces", 9, 150, 72, 3, 1, 1, 1, same, true, true},
      {"tiled_odd", 11, 21, 45, 3, 1, 1, 1, none, true, false},
      {"tiled_unevenly", 9, 90, 24, 3, 1, 1, 1, {2, 0, 1, 2}, false, true},
      {"tiled_small", 9, 64, 64, 3, 1, 1, 1, none, true, false},
      {"tiled_large", 40, 16, 32, 3, 1, 1, 1, same, false, false},
  };
  std::vector<KernelGraph> graphs;
  for (const ConvolutionCase& c : cases) graphs.push_back({c.name, convolution_graph(c, mixed)});
  return graphs;
}

KernelGraph patch_graph() {
  return {"patches", convolution_graph(
                         {"patches", 224, 3, 384, 16, 16, 1, 1, {0, 0, 0, 0}, true, false}, false)};
}

std::vector<KernelGraph> dense_graphs(bool mixed) {
  const std::vector<DenseCase> cases = {{"wide", {300}, 70, true, true},
                                        {"odd", {33}, 19, true, false},
                                        {"without_bias", {128}, 64, false, false},
                                        {"rows_of_rows", {6, 40}, 24, true, true},
                                        {"pieces", {1100}, 530, true, true},
                                        {"few_units", {1500}, 10, true, false},
                                        {"few_units_relu", {5, 77}, 16, true, true},
                                        {"two_units", {130}, 2, false, false},
                                        {"long_rows", {9001}, 33, true, true},
                                        {"weights_from_memory", {1031}, 1100, true, true},
                                        {"long_weights", {40003}, 27, false, false},
                                        {"one_unit", {20000}, 1, true, false},
                                        {"one_unit_relu", {77}, 1, true, true}};
  std::vector<KernelGraph> graphs;
  for (const DenseCase& c : cases) graphs.push_back({c.name, dense_graph(c, mixed)});
  return graphs;
}

std::vector<KernelGraph> mixed_pooled_graphs() {
  const std::vector<int64_t> none = {0, 0, 0, 0};
  const std::vector<int64_t> same = {1, 1, 1, 1};
  const std::vector<std::pair<std::string, PooledCase>> cases = {
      {"first", {40, 3, 32, none}},
      {"middle", {27, 32, 48, same}},
      // Several pieces of rows and of columns; more rows of a source than a band of gradients.
      {"large", {70, 16, 64, none}},
      {"small_images", {9, 8, 80, same}},
      {"odd", {18, 9, 21, same}},
      {"large_kernel", {20, 12, 48, {2, 2, 2, 2}, 5}},
      {"uneven_padding", {15, 40, 16, {1, 0, 0, 1}, 2}},
      {"strided", {33, 16, 64, {0, 1, 0, 1}, 3, 2}},
      {"wide_windows", {22, 33, 20, same, 3, 1, false, 3}},
      {"points", {16, 64, 96, none, 1}}};
  std::vector<KernelGraph> graphs;
  for (const auto& [name, c] : cases) graphs.push_back({"pooled_" + name, pooled_graph(c, true)});
  return graphs;
}

std::vector<KernelGraph> loop_graphs() {
  const std::vector<int64_t> none = {0, 0, 0, 0};
  return {{"pool", pooling_graph("max_pool2d", 16, 32, 2, 2, none)},
          {"pool_leftover", pooling_graph("max_pool2d", 17, 19, 2, 2, none)},
          {"pool_overlapping", pooling_graph("max_pool2d", 15, 24, 3, 2, {1, 0, 1, 1})},
          {"pool_large_window", pooling_graph("max_pool2d", 19, 5, 5, 3, {2, 1, 2, 1})},
          {"mean", pooling_graph("avg_pool2d", 16, 32, 2, 2, none)},
          {"mean_overlapping", pooling_graph("avg_pool2d", 15, 21, 3, 2, {1, 1, 1, 1})},
          {"mean_global", global_pooling_graph()},
          {"pooled_first", pooled_graph({40, 3, 32, none})},
          {"pooled_first_same", pooled_graph({23, 3, 112, {1, 1, 1, 1}})},
          {"pooled_one_channel", pooled_graph({28, 1, 80, none})},
          {"pooled_two_channels", pooled_graph({17, 2, 16, {1, 1, 1, 1}, 3, 1, false})},
          {"pooled_large_kernel", pooled_graph({20, 1, 48, {2, 2, 2, 2}, 5})},
          {"pooled_strided", pooled_graph({33, 3, 64, {0, 1, 0, 1}, 3, 2})},
          {"pooled_odd_filters", pooled_graph({18, 3, 21, none})},
          {"pooled_middle", pooled_graph({27, 32, 48, {1, 1, 1, 1}})},
          // The result of one image is more than what is pooled at once.
          {"pooled_large", pooled_graph({64, 16, 64, none})},
          {"pooled_tiles", pooled_graph({27, 140, 40, {1, 1, 1, 1}})},
          {"pooled_odd_tiles", pooled_graph({16, 19, 61, {0, 1, 2, 0}, 3, 1, false})},
          {"pooled_other_windows", pooled_graph({15, 32, 32, none, 3, 1, true, 3})},
          {"normalization", normalization_graph(32)},
          {"normalization_odd", normalization_graph(11)},
          {"repeated_rows", stretched_graph({1, 1, 37}, {9, 7, 37}, false)},
          {"repeated_columns", stretched_graph({9, 7, 1}, {9, 7, 83}, false)},
          {"repeated_between", stretched_graph({5, 1, 3, 1, 11}, {5, 6, 3, 2, 11}, false)},
          {"repeated_everywhere", stretched_graph({1, 1}, {90, 210}, false)},
          {"repeated_weight", stretched_graph({37}, {19, 37}, true)},
          {"repeated_number", stretched_graph({1}, {19, 37}, true)},
          {"not_repeated", stretched_graph({9, 37}, {9, 37}, false)},
          {"dropped_channels", channel_dropout_graph({13, 5, 21})},
          {"dropped_few_channels", channel_dropout_graph({130, 3})},
          {"dropped_samples", channel_dropout_graph({1001, 1})},
          {"dropped_many_channels", channel_dropout_graph({7, 300})},
          {"masked_rows", masked_graph({13, 37}, {13})},
          {"masked_elements", masked_graph({13, 37}, {13, 37})},
          {"elementwise", elementwise_graph(64)},
          {"elementwise_odd", elementwise_graph(37)}};
}

std::vector<KernelGraph> all_kernel_graphs() {
  std::vector<KernelGraph> graphs = convolution_graphs();
  for (auto& more : {dense_graphs(), loop_graphs()}) {
    graphs.insert(graphs.end(), more.begin(), more.end());
  }
  return graphs;
}

std::unique_ptr<backend::Backend> make_vectorized(const std::string& name, int threads,
                                                  int64_t batch_cap, int64_t units_cap) {
  backend::KernelSetOptions options;
  options.threads = threads;
  if (batch_cap > 0) options.caps.emplace_back("batch", batch_cap);
  if (units_cap > 0) options.caps.emplace_back("units", units_cap);
  return backend::make_backend(name, options);
}

std::vector<std::string> vectorized_backends() {
  std::vector<std::string> names = backend::computing_backends();
  std::erase(names, "reference");
  return names;
}

Graph prepared(const backend::Backend& backend, const Graph& graph) {
  return ops::insert_packs(ops::fuse(graph, ops::registry(), backend.offers(), 1), ops::registry(),
                           [&](const Graph& g, NodeId node) { return backend.packs(g, node); });
}

std::vector<Buffer> filled_values(const Graph& graph, int64_t batch, size_t shift) {
  std::vector<Buffer> values;
  for (const graph::Value& value : graph.values) {
    values.push_back(ops_test::make_buffer(value.type, batch, shift));
    if (value.kind != graph::ValueKind::kNode) fill(value, values.back());
  }
  return values;
}

std::vector<Buffer> run_graph(backend::Backend& backend, const Graph& graph, int64_t batch,
                              size_t shift) {
  std::vector<Buffer> values = filled_values(graph, batch, shift);
  ops_test::evaluate(backend, graph, batch, ops_test::Blocks::kCatalog, graph.nodes.size(), values);
  return values;
}

void expect_same_bits(const Graph& graph, const std::vector<Buffer>& actual,
                      const std::vector<Buffer>& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(actual[i].same_contents(expected[i])) << graph.values[i].name << ": " << what;
  }
}

void expect_close(const Graph& graph, const std::vector<Buffer>& actual,
                  const Graph& expected_graph, const std::vector<Buffer>& expected,
                  double tolerance) {
  for (size_t i = 0; i < actual.size(); ++i) {
    const graph::Value& value = graph.values[i];
    const ValueId other = graph::find_value(expected_graph, value.name);
    if (!other.valid() || value.type.dtype != DType::kFloat32) continue;
    ASSERT_EQ(actual[i].size(), expected[other.index()].size()) << value.name;
    EXPECT_LE(worst_difference(actual[i], expected[other.index()]), tolerance) << value.name;
  }
}

}  // namespace plimsoll::backend_test
