#pragma once

// Shapes whose dimensions are constants or multiples of the batch.
//
//   (B, 28, 28, 3)   one sample a row          (4B, 64)   four rows a sample
//
// A shape says nothing about layout: tensors are dense, row-major, channels last. What a row is
// follows from where the batch stands; in Plimsoll a batch dimension is always dimension 0, so the
// rows [i, j) of samples are the bytes [i * row_bytes, j * row_bytes).

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"

namespace plimsoll {

// One dimension: `count`, or `count` times the batch.
struct Dim {
  int64_t count = 1;
  bool of_batch = false;

  static constexpr Dim constant(int64_t n) { return {n, false}; }
  static constexpr Dim batch(int64_t multiple = 1) { return {multiple, true}; }
  constexpr int64_t at(int64_t batch_size) const { return of_batch ? count * batch_size : count; }
  friend constexpr auto operator<=>(const Dim&, const Dim&) = default;
};

class Shape {
 public:
  Shape() = default;  // a scalar
  Shape(std::initializer_list<Dim> dims) : dims_(dims) {}
  explicit Shape(std::vector<Dim> dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  const Dim& operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  Dim& operator[](int i) { return dims_[static_cast<size_t>(i)]; }
  std::span<const Dim> dims() const { return dims_; }
  bool has_batch() const { return !dims_.empty() && dims_.front().of_batch; }

  // Concrete extents at a batch size.
  std::vector<int64_t> at(int64_t batch_size) const;
  int64_t element_count(int64_t batch_size) const;
  // Elements of one sample (all of them where there is no batch dimension).
  int64_t elements_per_sample() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<Dim> dims_;
};

// Constant dimensions only.
Shape fixed_shape(std::span<const int64_t> dims);
// (B, dims…).
Shape batch_shape(std::span<const int64_t> dims);

// Bytes of a dense tensor; a kBits row (one sample) is rounded up to whole bytes.
Bytes tensor_bytes(DType dtype, const Shape& shape, int64_t batch_size);
Bytes row_bytes(DType dtype, const Shape& shape);

// "(B, 28, 28, 3)", "(4B, 64)", "()"; parse_shape reads the same. Throws kConfig.
std::string to_string(const Shape& shape);
Shape parse_shape(std::string_view text);

}  // namespace plimsoll
