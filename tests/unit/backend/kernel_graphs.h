#pragma once

// Small training graphs with shapes large enough that vectorized kernels take their fast paths, and
// what tests do with them: fill, run on a backend as a plan would, compare.

#include <memory>
#include <string>
#include <vector>

#include "backend/kernel/backends.h"
#include "graph/builder.h"
#include "ops/buffer.h"

namespace plimsoll::backend_test {

// A forward graph whose results are summed into a loss, with all gradients.
struct KernelGraph {
  std::string name;
  graph::Graph graph;
};
void PrintTo(const KernelGraph& graph, std::ostream* out);

// Convolutions of all kinds: few and many channels, strides, dilation, groups, one-sided padding.
// `mixed`: factors and results are bfloat16.
std::vector<KernelGraph> convolution_graphs(bool mixed = false);
// Patches of 16 × 16 of an image, as transformers of images begin with.
KernelGraph patch_graph();
// Dense layers, wide, odd and single, with and without relu.
std::vector<KernelGraph> dense_graphs(bool mixed = false);
std::vector<KernelGraph> mixed_pooled_graphs();
// Poolings, normalization, activations: our own loops, with channels that fill no vector.
std::vector<KernelGraph> loop_graphs();
std::vector<KernelGraph> all_kernel_graphs();

std::unique_ptr<backend::Backend> make_vectorized(const std::string& name, int threads,
                                                  int64_t batch_cap = 0, int64_t units_cap = 0);
// Those that are not the reference.
std::vector<std::string> vectorized_backends();
inline std::unique_ptr<backend::Backend> make_onednn(int threads, int64_t batch_cap = 0,
                                                     int64_t units_cap = 0) {
  return make_vectorized("onednn", threads, batch_cap, units_cap);
}
// Fused and with packs, as a program would be planned for that backend.
graph::Graph prepared(const backend::Backend& backend, const graph::Graph& graph);

// A buffer for every value, `shift` bytes off a cache line; inputs and states hold numbers that
// depend on their name alone.
std::vector<ops_test::Buffer> filled_values(const graph::Graph& graph, int64_t batch,
                                            size_t shift = 0);
// Runs the prepared graph in the catalog's blocks.
std::vector<ops_test::Buffer> run_graph(backend::Backend& backend, const graph::Graph& graph,
                                        int64_t batch, size_t shift = 0);

// Compares float32 numbers, over the largest expected.
double worst_difference(const ops_test::Buffer& actual, const ops_test::Buffer& expected);
// Expects values of equal names to have equal bits, or to be close in float32.
void expect_same_bits(const graph::Graph& graph, const std::vector<ops_test::Buffer>& actual,
                      const std::vector<ops_test::Buffer>& expected, const std::string& what);
void expect_close(const graph::Graph& graph, const std::vector<ops_test::Buffer>& actual,
                  const graph::Graph& expected_graph, const std::vector<ops_test::Buffer>& expected,
                  double tolerance);

}  // namespace plimsoll::backend_test
