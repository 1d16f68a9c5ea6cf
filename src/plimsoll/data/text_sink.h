#pragma once

// Predictions written as they come, as text: a CSV table or JSON lines.
//
//   a.csv        y0,y1,y2      a header, then one line a sample
//   a.jsonl      {"row": 0, "output": [[0.1, 0.9], [0.4, 0.6]]}
//
// Numbers are the shortest text that reads back as the same number; one that is not finite is nan
// or inf in a table and null in JSON. A buffer of 64 KiB is all that is held. The file appears
// whole under its name when finish() is called, or not at all.

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/tensor_io.h"

namespace plimsoll::data {

class TextSink : public OutputSink {
 public:
  enum class Form { kCsv, kJsonLines };
  // `row_shape` is one sample's. Takes output 0 only, rows in order.
  TextSink(Form form, const std::string& path, DType dtype, int64_t row_count,
           std::vector<int64_t> row_shape);

  void take(int output, int64_t row_begin, int64_t row_count, const void* rows) override;
  // Throws kInternal where rows are missing, kIo where the file cannot be completed.
  void finish();

 private:
  void put_number(const std::byte* value);
  void put_nested(size_t axis, const std::byte*& value);
  void put_row(const std::byte* row);

  Form form_;
  AtomicFile file_;
  DType dtype_;
  int64_t row_count_;
  std::vector<int64_t> row_shape_;
  int64_t row_elements_ = 1;
  int64_t rows_taken_ = 0;
  std::string buffer_;
};

}  // namespace plimsoll::data
