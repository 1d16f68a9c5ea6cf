#include "base/shape.h"

#include "base/error.h"
#include "base/format.h"

namespace plimsoll {
namespace {

int64_t product(int64_t a, int64_t b, const Shape& shape) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) {
    throw Error(ErrorKind::kConfig, fmt::format("shape {}: expected fewer than 2^63 elements or "
                                                "bytes, received more. Check its dimensions.",
                                                to_string(shape)));
  }
  return result;
}

[[noreturn]] void bad_shape(std::string_view text) {
  throw Error(ErrorKind::kConfig,
              "shape: expected non-negative dimensions in parentheses such as (B, 28, 28, 3), "
              "(4B, 64) or (), with the batch B in the first one only, received \"" +
                  std::string(text) + "\".");
}

void skip_blanks(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
}

// Takes "28", "B" or "4B" off the front of `text`.
Dim take_dim(std::string_view& text, std::string_view whole) {
  skip_blanks(text);
  int64_t count = 0;
  bool digits = false;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    if (__builtin_mul_overflow(count, int64_t{10}, &count) ||
        __builtin_add_overflow(count, int64_t{text.front() - '0'}, &count)) {
      bad_shape(whole);
    }
    text.remove_prefix(1);
    digits = true;
  }
  const bool batch = !text.empty() && text.front() == 'B';
  if (batch) text.remove_prefix(1);
  if (!digits && !batch) bad_shape(whole);
  skip_blanks(text);
  return {digits ? count : 1, batch};
}

}  // namespace

std::vector<int64_t> Shape::at(int64_t batch_size) const {
  std::vector<int64_t> extents;
  extents.reserve(dims_.size());
  for (const Dim& dim : dims_) {
    extents.push_back(dim.of_batch ? product(dim.count, batch_size, *this) : dim.count);
  }
  return extents;
}

int64_t Shape::element_count(int64_t batch_size) const {
  int64_t count = 1;
  for (const Dim& dim : dims_) {
    count = product(count, dim.count, *this);
    if (dim.of_batch) count = product(count, batch_size, *this);
  }
  return count;
}

int64_t Shape::elements_per_sample() const { return element_count(1); }

Shape fixed_shape(std::span<const int64_t> dims) {
  std::vector<Dim> result;
  result.reserve(dims.size());
  for (int64_t dim : dims) result.push_back(Dim::constant(dim));
  return Shape(std::move(result));
}

Shape batch_shape(std::span<const int64_t> dims) {
  std::vector<Dim> result;
  result.reserve(dims.size() + 1);
  result.push_back(Dim::batch());
  for (int64_t dim : dims) result.push_back(Dim::constant(dim));
  return Shape(std::move(result));
}

Bytes row_bytes(DType dtype, const Shape& shape) {
  const int64_t elements = shape.elements_per_sample();
  if (dtype == DType::kBits) return Bytes(elements / 8 + (elements % 8 == 0 ? 0 : 1));
  return Bytes(product(elements, element_bytes(dtype).count(), shape));
}

Bytes tensor_bytes(DType dtype, const Shape& shape, int64_t batch_size) {
  const int64_t rows = shape.has_batch() ? batch_size : 1;
  return Bytes(product(row_bytes(dtype, shape).count(), rows, shape));
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (int i = 0; i < shape.rank(); ++i) {
    const Dim& dim = shape[i];
    if (i > 0) text += ", ";
    if (!dim.of_batch || dim.count != 1) text += std::to_string(dim.count);
    if (dim.of_batch) text += "B";
  }
  return text + ")";
}

Shape parse_shape(std::string_view text) {
  std::string_view rest = text;
  skip_blanks(rest);
  if (rest.empty() || rest.front() != '(') bad_shape(text);
  rest.remove_prefix(1);
  skip_blanks(rest);
  std::vector<Dim> dims;
  while (!rest.empty() && rest.front() != ')') {
    dims.push_back(take_dim(rest, text));
    if (dims.back().of_batch && dims.size() > 1) bad_shape(text);
    if (!rest.empty() && rest.front() == ',') {
      rest.remove_prefix(1);
      skip_blanks(rest);
    } else if (rest.empty() || rest.front() != ')') {
      bad_shape(text);
    }
  }
  if (rest.empty()) bad_shape(text);
  rest.remove_prefix(1);
  skip_blanks(rest);
  if (!rest.empty()) bad_shape(text);
  return Shape(std::move(dims));
}

}  // namespace plimsoll
