#include "data/text_sink.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace plimsoll::data {
namespace {

constexpr size_t kBufferBytes = 64 << 10;

template <typename Number>
Number read_as(const std::byte* value) {
  Number number;
  std::memcpy(&number, value, sizeof number);
  return number;
}

}  // namespace

TextSink::TextSink(Form form, const std::string& path, DType dtype, int64_t row_count,
                   std::vector<int64_t> row_shape)
    : form_(form),
      file_(path),
      dtype_(dtype),
      row_count_(row_count),
      row_shape_(std::move(row_shape)) {
  for (const int64_t extent : row_shape_) row_elements_ *= extent;
  PLIMSOLL_CHECK(dtype == DType::kFloat32 || dtype == DType::kInt32 || dtype == DType::kInt64,
                 "predictions of another type");
  buffer_.reserve(kBufferBytes + 64);
  if (form_ == Form::kJsonLines) return;
  for (int64_t i = 0; i < row_elements_; ++i) {
    buffer_ += fmt::format("{}{}", i == 0 ? "y" : ",y", i);
    if (buffer_.size() >= kBufferBytes) {
      file_.write(buffer_);
      buffer_.clear();
    }
  }
  buffer_ += '\n';
}

void TextSink::put_number(const std::byte* value) {
  std::array<char, 32> text;
  char* const end = text.data() + text.size();
  std::to_chars_result written{};
  if (dtype_ == DType::kFloat32) {
    const auto number = read_as<float>(value);
    if (form_ == Form::kJsonLines && !std::isfinite(number)) {
      buffer_ += "null";
      return;
    }
    written = std::to_chars(text.data(), end, number);
  } else if (dtype_ == DType::kInt32) {
    written = std::to_chars(text.data(), end, read_as<int32_t>(value));
  } else {
    written = std::to_chars(text.data(), end, read_as<int64_t>(value));
  }
  buffer_.append(text.data(), written.ptr);
  if (buffer_.size() < kBufferBytes) return;
  file_.write(buffer_);
  buffer_.clear();
}

void TextSink::put_nested(size_t axis, const std::byte*& value) {
  if (axis == row_shape_.size()) {
    put_number(value);
    value += element_bytes(dtype_).count();
    return;
  }
  buffer_ += '[';
  for (int64_t i = 0; i < row_shape_[axis]; ++i) {
    if (i > 0) buffer_ += ", ";
    put_nested(axis + 1, value);
  }
  buffer_ += ']';
}

void TextSink::put_row(const std::byte* row) {
  if (form_ == Form::kJsonLines) {
    buffer_ += fmt::format("{{\"row\": {}, \"output\": ", rows_taken_);
    put_nested(0, row);
    buffer_ += "}\n";
    return;
  }
  for (int64_t i = 0; i < row_elements_; ++i) {
    if (i > 0) buffer_ += ',';
    put_number(row + i * element_bytes(dtype_).count());
  }
  buffer_ += '\n';
}

void TextSink::take(int output, int64_t row_begin, int64_t row_count, const void* rows) {
  if (output != 0) return;
  PLIMSOLL_CHECK(row_begin == rows_taken_, "predictions that are out of order");
  const auto* row = static_cast<const std::byte*>(rows);
  for (int64_t i = 0; i < row_count; ++i, ++rows_taken_) {
    put_row(row);
    row += row_elements_ * element_bytes(dtype_).count();
  }
}

void TextSink::finish() {
  PLIMSOLL_CHECK(
      rows_taken_ == row_count_,
      fmt::format("expected {} rows of predictions, received {}", row_count_, rows_taken_));
  file_.write(buffer_);
  file_.commit();
}

}  // namespace plimsoll::data
