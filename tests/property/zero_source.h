#pragma once

// Where a step takes samples from and gives its results to, of tests that look at neither.

#include <cstring>
#include <vector>

#include "base/tensor_io.h"
#include "exec/executor.h"
#include "graph/program.h"

namespace plimsoll::property {

// Zeros are as good as anything here: features and labels.
class ZeroSource final : public InputSource {
 public:
  explicit ZeroSource(const graph::Graph& graph) {
    for (graph::ValueId input : graph.inputs) {
      const graph::ValueType& type = graph.value(input).type;
      row_bytes_.push_back(row_bytes(type.dtype, type.shape).size());
    }
  }
  void fill(int input, int64_t, int64_t row_count, void* destination) override {
    std::memset(destination, 0,
                row_bytes_[static_cast<size_t>(input)] * static_cast<size_t>(row_count));
  }

 private:
  std::vector<size_t> row_bytes_;
};

class NoSink final : public OutputSink {
 public:
  void take(int, int64_t, int64_t, const void*) override {}
};

}  // namespace plimsoll::property
