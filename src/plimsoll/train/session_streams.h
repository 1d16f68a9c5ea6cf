#pragma once

// What a session puts between its programs and others: rows of a rank's share, the loss, numbered
// predictions, the state as tensors.

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "base/tensor_io.h"
#include "exec/executor.h"
#include "graph/program.h"

namespace plimsoll::train {

// Takes the loss, the first output, of one step.
class LossSink : public OutputSink {
 public:
  void take(int output, int64_t, int64_t, const void* rows) override {
    if (output == 0) std::memcpy(&loss_, rows, sizeof loss_);
  }
  double loss() const { return loss_; }

 private:
  float loss_ = 0;
};

// Hands predictions on with row numbers counted from the start of the data.
class ShiftedSink : public OutputSink {
 public:
  explicit ShiftedSink(OutputSink& target) : target_(target) {}
  void set_first_row(int64_t row) { first_row_ = row; }
  void take(int output, int64_t row_begin, int64_t row_count, const void* rows) override {
    target_.take(output, first_row_ + row_begin, row_count, rows);
  }

 private:
  OutputSink& target_;
  int64_t first_row_ = 0;
};

// The rows of a rank's share of the batch.
class SharedRows : public InputSource {
 public:
  SharedRows(InputSource& batch, const graph::Share& share)
      : batch_(batch), first_(std::min(share.first, share.samples - 1)) {}
  void fill(int input, int64_t row_begin, int64_t row_count, void* destination) override {
    batch_.fill(input, first_ + row_begin, row_count, destination);
  }

 private:
  InputSource& batch_;
  int64_t first_;  // a rank without samples takes the last one
};

// The state as named tensors, wherever it lies.
class StateSource : public TensorSource {
 public:
  StateSource(exec::Executor& executor, const graph::ProgramSet& set) : executor_(executor) {
    for (const graph::StateVariable& variable : graph::states_of(set)) {
      infos_.push_back({variable.name, variable.type.dtype, variable.type.shape.at(1)});
    }
  }
  std::span<const TensorInfo> tensors() const override { return infos_; }
  void read(size_t index, int64_t byte_begin, std::span<std::byte> destination) override {
    executor_.read_state(infos_[index].name, byte_begin, destination);
  }

 private:
  exec::Executor& executor_;
  std::vector<TensorInfo> infos_;
};

}  // namespace plimsoll::train
