// The kernels of a training step of S0a (two stages of convolution and pooling on 256 × 256 × 3
// images, one dense unit), block by block and outside of any plan, values sharing memory as far as
// one image at a time allows: milliseconds an image by kernel,
// mean and least. Where other programs run beside it, only the least says something.
//
//   s0a_kernels [images, default 128] [threads, default from the machine]
//
// Prints a table to standard error and one JSON line to standard output.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "backend/kernel/backends.h"
#include "graph/autodiff.h"
#include "node_bench.h"
#include "ops/fuse/fuse.h"
#include "ops/registry.h"

namespace {

using namespace plimsoll;
using graph::GraphBuilder;
using graph::NodeId;
using graph::ValueId;

graph::Attributes convolution(int64_t filters) {
  return {{"filters", filters},
          {"kernel_size", std::vector<int64_t>{3, 3}},
          {"strides", std::vector<int64_t>{1, 1}},
          {"padding", std::vector<int64_t>{0, 0, 0, 0}},
          {"dilation_rate", std::vector<int64_t>{1, 1}},
          {"groups", int64_t{1}},
          {"use_bias", true},
          {"activation", "relu"}};
}

graph::Graph training_step() {
  GraphBuilder b(ops::registry());
  std::vector<ValueId> weights;
  const auto weight = [&](const std::string& name, std::vector<int64_t> dims) {
    const auto state = b.state({.name = name, .type = {DType::kFloat32, fixed_shape(dims)}});
    weights.push_back(b.read(state));
    return weights.back();
  };
  const graph::Attributes pool = {{"pool_size", std::vector<int64_t>{2, 2}},
                                  {"strides", std::vector<int64_t>{2, 2}},
                                  {"padding", std::vector<int64_t>{0, 0, 0, 0}}};
  ValueId x = b.input("x", {DType::kFloat32, batch_shape(std::vector<int64_t>{256, 256, 3})});
  int64_t channels = 3;
  for (int64_t filters : {32, 64}) {
    const std::string name = "conv" + std::to_string(filters);
    const ValueId kernel = weight(name + "/kernel", {3, 3, channels, filters});
    const ValueId bias = weight(name + "/bias", {filters});
    x = b.call("conv2d", name, {x, kernel, bias}, convolution(filters));
    const NodeId pooled = b.add("max_pool2d", "pool" + std::to_string(filters), {x}, pool);
    x = b.graph().node(pooled).outputs[0];
    channels = filters;
  }
  constexpr int64_t kFeatures = 62 * 62 * 64;
  x = b.call("reshape", "flatten", {x}, {{"shape", std::vector<int64_t>{kFeatures}}});
  const ValueId kernel = weight("dense/kernel", {kFeatures, 1});
  const ValueId bias = weight("dense/bias", {1});
  x = b.call("dense", "dense", {x, kernel, bias},
             {{"units", int64_t{1}}, {"use_bias", true}, {"activation", "linear"}});
  const ValueId loss = b.call("batch_sum", "loss", {x});
  add_gradients(b, loss, weights);
  return b.finish();
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t images = argc > 1 ? std::atoll(argv[1]) : 128;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 0;
  backend::KernelSetOptions options;
  options.threads = threads;
  const auto backend = backend::make_backend("onednn", options);
  const graph::Graph fused = ops::fuse(training_step(), ops::registry(), backend->offers(), 1);
  const graph::Graph graph = ops::insert_packs(
      fused, ops::registry(),
      [&](const graph::Graph& g, NodeId node) { return backend->packs(g, node); });
  const bench::Values values(graph, 1, bench::Sharing::kArena);
  std::vector<bench::NodeRunner> runners;
  std::vector<double> seconds(graph.nodes.size(), 0.0);
  std::vector<double> least(graph.nodes.size(), 1e30);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    runners.emplace_back(*backend, graph, NodeId(n), images, 1, values);
  }
  // The first iteration warms up.
  double total = 0;
  for (int turn = 0; turn < 2; ++turn) {
    std::fill(seconds.begin(), seconds.end(), 0.0);
    const double begin = bench::now_seconds();
    for (int64_t image = 0; image < images; ++image) {
      for (size_t n = 0; n < runners.size(); ++n) {
        const double start = bench::now_seconds();
        runners[n].run(image);
        const double taken = bench::now_seconds() - start;
        seconds[n] += taken;
        least[n] = std::min(least[n], taken);
      }
    }
    total = bench::now_seconds() - begin;
  }
  std::fprintf(stderr, "%s, %.1f MiB of values\n", backend->catalog().kernel_set().c_str(),
               static_cast<double>(values.bytes()) / (1 << 20));
  std::string json;
  double least_total = 0;
  for (size_t n = 0; n < runners.size(); ++n) {
    const graph::Node& node = graph.nodes[n];
    const double ms = seconds[n] * 1e3 / static_cast<double>(images);
    if (node.op->name() != "pack") least_total += least[n];
    const graph::Block block = backend->catalog().block(graph, NodeId(n));
    std::fprintf(stderr, "%8.3f ms, least %7.3f  block %2lld  %-20s %s\n", ms, least[n] * 1e3,
                 static_cast<long long>(block.empty() ? 0 : block[0]),
                 std::string(node.op->name()).c_str(), node.name.c_str());
    char text[200];
    std::snprintf(text, sizeof(text), "%s\"%s\": %.4f", n == 0 ? "" : ", ", node.name.c_str(),
                  least[n] * 1e3);
    json += text;
  }
  std::printf(
      "{\"images\": %lld, \"threads\": %d, \"seconds\": %.4f, \"ms_per_image\": %.3f, "
      "\"least_ms_per_image\": %.3f, \"least_ms\": {%s}}\n",
      static_cast<long long>(images), backend->catalog().thread_count(), total,
      total * 1e3 / static_cast<double>(images), least_total * 1e3, json.c_str());
  return 0;
}
