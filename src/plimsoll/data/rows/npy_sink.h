#pragma once

// Predictions written as they come, to one .npy file.
//
// Rows arrive in order and leave at once; nothing is kept but one header. The file appears whole
// under its name when finish() is called, or not at all.

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/tensor_io.h"

namespace plimsoll::data {

class NpySink : public OutputSink {
 public:
  // `row_shape` is one sample's. Takes output 0 only.
  NpySink(const std::string& path, DType dtype, int64_t row_count, std::vector<int64_t> row_shape);

  void take(int output, int64_t row_begin, int64_t row_count, const void* rows) override;
  // Throws kInternal where rows are missing, kIo where the file cannot be completed.
  void finish();

 private:
  AtomicFile file_;
  int64_t data_offset_ = 0;
  int64_t row_bytes_ = 0;
  int64_t row_count_ = 0;
  int64_t rows_taken_ = 0;
};

}  // namespace plimsoll::data
