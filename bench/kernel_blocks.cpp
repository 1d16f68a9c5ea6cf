// How fast each kernel is at which batch extent: the measurements behind backend/onednn/blocks.cpp.
//
//   kernel_blocks [part of a name] [seconds per measurement, default 0.1]
//
// For the layers of the workloads and of ResNet-50: microseconds a sample at extents 1, 2, … 64,
// the smallest extent within 2 % of the best, and the extent that the kernel set takes. A weight
// gradient's time includes adding the block to the sum. One JSON line per node on standard output,
// a table on standard error.

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "backend/backends.h"
#include "graph/autodiff.h"
#include "graph/builder.h"
#include "node_bench.h"
#include "ops/fuse/fuse.h"
#include "ops/registry.h"

namespace {

using namespace plimsoll;
using graph::Graph;
using graph::GraphBuilder;
using graph::NodeId;
using graph::ValueId;

struct Layer {
  std::string name;
  int64_t size, channels, filters, kernel, stride, padding;  // of a convolution; size 0: dense
};

const std::vector<Layer> kLayers = {
    {"s0a/conv1", 256, 3, 32, 3, 1, 0},
    {"s0a/conv2", 127, 32, 64, 3, 1, 0},
    {"s0a/dense", 0, 246016, 1, 0, 0, 0},
    {"s1a/conv", 28, 3, 32, 3, 1, 0},
    {"s1a/dense", 0, 5408, 10, 0, 0, 0},
    {"s1c/conv1", 64, 3, 64, 3, 1, 0},
    {"s1c/conv2", 31, 64, 128, 3, 1, 0},
    {"s1c/dense1", 0, 25088, 256, 0, 0, 0},
    {"s2/conv1", 32, 3, 32, 3, 1, 0},
    {"s2/conv2", 15, 32, 64, 3, 1, 0},
    {"s2/dense", 0, 2304, 10, 0, 0, 0},
    {"s4/dense1", 0, 1000, 128, 0, 0, 0},
    {"s4/dense2", 0, 128, 1, 0, 0, 0},
    {"s4l/dense1", 0, 1000, 512, 0, 0, 0},
    {"s4l/dense2", 0, 512, 256, 0, 0, 0},
    {"fashion/conv1", 28, 1, 32, 3, 1, 1},
    {"fashion/conv2", 14, 32, 64, 3, 1, 1},
    {"fashion/dense1", 0, 3136, 128, 0, 0, 0},
    {"resnet/stem", 224, 3, 64, 7, 2, 3},
    {"resnet/56_1x1_64_256", 56, 64, 256, 1, 1, 0},
    {"resnet/56_3x3_64", 56, 64, 64, 3, 1, 1},
    {"resnet/56_1x1_s2", 56, 256, 512, 1, 2, 0},
    {"resnet/28_3x3_128", 28, 128, 128, 3, 1, 1},
    {"resnet/14_3x3_256", 14, 256, 256, 3, 1, 1},
    {"resnet/14_1x1_1024_256", 14, 1024, 256, 1, 1, 0},
    {"resnet/7_3x3_512", 7, 512, 512, 3, 1, 1},
    {"resnet/7_1x1_512_2048", 7, 512, 2048, 1, 1, 0},
};

// The layer with relu, a pooling behind a convolution, and all gradients.
Graph training_graph(const Layer& layer) {
  GraphBuilder b(ops::registry());
  const auto weight = [&](const std::string& name, std::vector<int64_t> dims) {
    return b.read(b.state({.name = name, .type = {DType::kFloat32, fixed_shape(dims)}}));
  };
  const bool dense = layer.size == 0;
  const std::vector<int64_t> dims =
      dense ? std::vector<int64_t>{layer.channels}
            : std::vector<int64_t>{layer.size, layer.size, layer.channels};
  const ValueId x = b.input("x", {DType::kFloat32, batch_shape(dims)});
  const ValueId bias = weight("bias", {layer.filters});
  ValueId kernel;
  ValueId y;
  if (dense) {
    kernel = weight("kernel", {layer.channels, layer.filters});
    y = b.call("dense", "layer", {x, kernel, bias},
               {{"units", layer.filters}, {"use_bias", true}, {"activation", "relu"}});
  } else {
    kernel = weight("kernel", {layer.kernel, layer.kernel, layer.channels, layer.filters});
    const int64_t p = layer.padding;
    y = b.call("conv2d", "layer", {x, kernel, bias},
               {{"filters", layer.filters},
                {"kernel_size", std::vector<int64_t>{layer.kernel, layer.kernel}},
                {"strides", std::vector<int64_t>{layer.stride, layer.stride}},
                {"padding", std::vector<int64_t>{p, p, p, p}},
                {"dilation_rate", std::vector<int64_t>{1, 1}},
                {"groups", int64_t{1}},
                {"use_bias", true},
                {"activation", "relu"}});
    const NodeId pool = b.add("max_pool2d", "pool", {y},
                              {{"pool_size", std::vector<int64_t>{2, 2}},
                               {"strides", std::vector<int64_t>{2, 2}},
                               {"padding", std::vector<int64_t>{0, 0, 0, 0}}});
    y = b.graph().node(pool).outputs[0];
  }
  const std::vector<ValueId> targets = {x, kernel, bias};
  add_gradients(b, b.call("batch_sum", "loss", {y}), targets);
  return b.finish();
}

Graph prepared(const backend::Backend& backend, const Graph& graph) {
  return ops::insert_packs(ops::fuse(graph, ops::registry(), backend.offers(), 1), ops::registry(),
                           [&](const Graph& g, NodeId node) { return backend.packs(g, node); });
}

void measure_node(backend::Backend& backend, const Layer& layer, const Graph& graph, NodeId node,
                  double budget) {
  const std::vector<graph::Axis> axes = axes_of(graph, node);
  const int batch_axis = graph::find_axis(axes, graph::kBatchAxis);
  const std::string op(graph.node(node).op->name());
  if (batch_axis < 0 || op == "batch_sum_grad" || op == "batch_sum") return;
  const int64_t box = backend.catalog().block(graph, node)[static_cast<size_t>(batch_axis)];
  std::vector<double> micros;
  std::vector<int64_t> extents;
  double best = std::numeric_limits<double>::infinity();
  for (int64_t extent = 1; extent <= 64; extent *= 2) {
    const bench::Values values(graph, extent);
    bench::NodeRunner runner(backend, graph, node, extent, extent, values);
    micros.push_back(runner.time(budget) * 1e6 / static_cast<double>(extent));
    extents.push_back(extent);
    best = std::min(best, micros.back());
  }
  int64_t fast = extents.back();
  for (size_t i = extents.size(); i-- > 0;) {
    if (micros[i] <= best * 1.02) fast = extents[i];
  }
  std::string numbers;
  std::string table;
  for (double m : micros) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.2f", m);
    numbers += std::string(numbers.empty() ? "" : ", ") + text;
    std::snprintf(text, sizeof(text), "%10.2f", m);
    table += text;
  }
  std::fprintf(stderr, "%-24s %-20s%s   fast %2lld  box %2lld\n", layer.name.c_str(), op.c_str(),
               table.c_str(), static_cast<long long>(fast), static_cast<long long>(box));
  std::printf(
      "{\"layer\": \"%s\", \"op\": \"%s\", \"us_per_sample\": [%s], \"fast\": %lld, "
      "\"box\": %lld}\n",
      layer.name.c_str(), op.c_str(), numbers.c_str(), static_cast<long long>(fast),
      static_cast<long long>(box));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string part = argc > 1 ? argv[1] : "";
  const double budget = argc > 2 ? std::atof(argv[2]) : 0.1;
  const auto backend = backend::make_backend("onednn", {});
  std::fprintf(stderr, "%s\n%-45s%10s%10s%10s%10s%10s%10s%10s\n",
               backend->catalog().kernel_set().c_str(), "us a sample at extent", "1", "2", "4", "8",
               "16", "32", "64");
  for (const Layer& layer : kLayers) {
    if (layer.name.find(part) == std::string::npos) continue;
    const Graph graph = prepared(*backend, training_graph(layer));
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      measure_node(*backend, layer, graph, NodeId(n), budget);
    }
  }
  return 0;
}
