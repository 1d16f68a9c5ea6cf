#pragma once

// Runs single nodes of a graph on a backend's kernels, outside of any plan, and times them.
//
// Operands are dense and have the extent of one block: what a plan keeps for one iteration of a
// loop of that slice. Weights and accumulators are whole. Contents are small pseudo-random numbers,
// of int64 up to 4098.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "backend/kernel/kernel.h"

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

enum class Sharing {
  kNone,  // a buffer for every value
  // Values that are not alive at once share memory, outputs take over inputs; what a ReLU's
  // gradient looks at is kept as bits (saved_bits).
  kArena
};

// Whether the node reads this operand as one bit a number.
bool saved_as_bits(const graph::Graph& graph, graph::NodeId node, size_t input);

// Values of one graph at a number of samples.
class Values {
 public:
  Values(const graph::Graph& graph, int64_t samples, Sharing sharing = Sharing::kNone);
  std::byte* data(graph::ValueId value) const { return memory_->data() + offsets_[value.index()]; }
  // The value's bits, where some node reads them in the place of it; else null.
  std::byte* bits(graph::ValueId value) const {
    return bits_.empty() ? nullptr : bits_[value.index()].get();
  }
  size_t bytes() const { return bytes_; }
  const std::vector<int64_t>& dims(graph::ValueId value) const { return dims_[value.index()]; }
  const std::vector<int64_t>& strides(graph::ValueId value) const {
    return strides_[value.index()];
  }

 private:
  void place(const graph::Graph& graph, const std::vector<size_t>& sizes, Sharing sharing);

  std::unique_ptr<Memory> memory_;
  size_t bytes_ = 0;
  std::vector<size_t> offsets_;
  std::vector<std::unique_ptr<std::byte[]>> bits_;
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
  std::unique_ptr<backend::Kernel> encoder_;  // of output 0, where bits of it are kept
  backend::Operand bits_;
  std::vector<backend::Operand> inputs_;
  std::vector<backend::Operand> outputs_;
  std::unique_ptr<Memory> scratch_;
  std::vector<int64_t> extents_;
  std::vector<int64_t> begin_;
  int batch_axis_ = -1;
  backend::StepContext step_;
};

}  // namespace plimsoll::bench
