#include "data/rows/npy_sink.h"

#include "base/error.h"
#include "base/format.h"
#include "codec/npy.h"

namespace plimsoll::data {

NpySink::NpySink(const std::string& path, DType dtype, int64_t row_count,
                 std::vector<int64_t> row_shape)
    : file_(path), row_bytes_(element_bytes(dtype).count()), row_count_(row_count) {
  for (const int64_t extent : row_shape) row_bytes_ *= extent;
  row_shape.insert(row_shape.begin(), row_count);
  const std::string header = codec::npy_header_text(dtype, row_shape);
  data_offset_ = static_cast<int64_t>(header.size());
  file_.write(header);
}

void NpySink::take(int output, int64_t row_begin, int64_t row_count, const void* rows) {
  if (output != 0) return;
  const auto* bytes = static_cast<const std::byte*>(rows);
  file_.file().write_at(data_offset_ + row_begin * row_bytes_,
                        {bytes, static_cast<size_t>(row_count * row_bytes_)});
  rows_taken_ += row_count;
}

void NpySink::finish() {
  PLIMSOLL_CHECK(
      rows_taken_ == row_count_,
      fmt::format("expected {} rows of predictions, received {}", row_count_, rows_taken_));
  file_.commit();
}

}  // namespace plimsoll::data
