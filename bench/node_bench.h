#pragma once

// Runs single nodes of a graph on a backend's kernels, outside of any plan, and times them.
//
// Operands are dense and have the extent of one block: what a plan keeps for one turn of a loop of
// that slice. Weights and accumulators are whole. Contents are small pseudo-random numbers.

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/kernel.h"

namespace plimsoll::bench {

double now_seconds();

// A page-aligned buffer, touched.
class Memory {
 public:
  explicit Memory(size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

// Values of one graph at a number of samples, each in a buffer of its own.
class Values {
 public:
  Values(const graph::Graph& graph, int64_t samples);
  std::byte* data(graph::ValueId value) const { return buffers_[value.index()]->data(); }
  const std::vector<int64_t>& dims(graph::ValueId value) const { return dims_[value.index()]; }
  const std::vector<int64_t>& strides(graph::ValueId value) const {
    return strides_[value.index()];
  }

 private:
  std::vector<std::unique_ptr<Memory>> buffers_;
  std::vector<std::vector<int64_t>> dims_;
  std::vector<std::vector<int64_t>> strides_;
};

// One node's kernel on such values.
class NodeRunner {
 public:
  // `samples` in the call, which is the extent of `values` too; `batch` is that of the program.
  NodeRunner(backend::Backend& backend, const graph::Graph& graph, graph::NodeId node,
             int64_t batch, int64_t samples, const Values& values);
  // The block that begins at sample `begin`.
  void run(int64_t begin);
  // The least seconds of a call, over `budget` seconds of calls.
  double time(double budget);

 private:
  std::unique_ptr<backend::Kernel> kernel_;
  std::vector<backend::Operand> inputs_;
  std::vector<backend::Operand> outputs_;
  std::unique_ptr<Memory> scratch_;
  std::vector<int64_t> extents_;
  std::vector<int64_t> begin_;
  int batch_axis_ = -1;
  backend::StepContext step_;
};

}  // namespace plimsoll::bench
