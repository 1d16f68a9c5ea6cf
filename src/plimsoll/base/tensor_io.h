#pragma once

// The small interfaces that let layers of the program meet without knowing each other.
//
// InputSource feeds training: exec asks it to fill the slice that is about to run; OutputSink takes
// what a program hands out. TensorSource and TensorSink stream named tensors (weights, checkpoints)
// in pieces, so that moving N bytes never needs 2 N. None of them owns the memory it reads into or
// writes from.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace plimsoll {

// Rows of the batch that is current. Several inputs (features, labels, sample weights) are told
// apart by index: the order in which they were named when the source was bound.
class InputSource {
 public:
  virtual ~InputSource() = default;

  // Writes rows [row_begin, row_begin + row_count) of input `input` of the current batch to
  // `destination`, converted to the dtype that was agreed when the source was bound, dense and
  // row-major. Rows may be asked for again and in any order until the batch is left. Throws kData
  // or kIo.
  virtual void fill(int input, int64_t row_begin, int64_t row_count, void* destination) = 0;
};

// Rows of a program's outputs as they are computed (losses, metrics, predictions). Outputs are told
// apart by index; the memory is valid during the call only.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  virtual void take(int output, int64_t row_begin, int64_t row_count, const void* rows) = 0;
};

// One named tensor of a file or an arena.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual std::span<const TensorInfo> tensors() const = 0;
  // Reads bytes [byte_begin, byte_begin + destination.size()) of tensor `index` (dense, row-major,
  // little-endian). Throws kIo, or kModel where the file is malformed.
  virtual void read(size_t index, int64_t byte_begin, std::span<std::byte> destination) = 0;
  // Where tensor `index` lies as a whole; empty: not in memory.
  virtual std::span<const std::byte> in_memory(size_t index) const {
    static_cast<void>(index);
    return {};
  }
};

// Has none: for structures that are written without weights.
class NoTensors final : public TensorSource {
 public:
  std::span<const TensorInfo> tensors() const override { return {}; }
  void read(size_t, int64_t, std::span<std::byte>) override {}
};

class TensorSink {
 public:
  virtual ~TensorSink() = default;
  // Starts a tensor; its bytes follow in order through write, and end with the next begin or the
  // sink's own finish.
  virtual void begin(const TensorInfo& info) = 0;
  virtual void write(std::span<const std::byte> bytes) = 0;
};

}  // namespace plimsoll
