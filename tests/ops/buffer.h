#pragma once

// Memory for one value, with guard bytes on both sides that tests check.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/ir.h"

namespace plimsoll::ops_test {

class Buffer {
 public:
  Buffer() = default;
  // `shift`: bytes beyond a multiple of 64 where the contents begin.
  explicit Buffer(size_t size, size_t shift = 0);

  std::byte* data() { return storage_.data() + begin_; }
  const std::byte* data() const { return storage_.data() + begin_; }
  size_t size() const { return size_; }
  bool guards_intact() const;
  // Copies contents into a buffer that begins elsewhere.
  Buffer moved(size_t shift) const;
  bool same_contents(const Buffer& other) const;

  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data());
  }

 private:
  std::vector<std::byte> storage_;
  size_t begin_ = 0;
  size_t size_ = 0;
};

// For a whole value at a batch size.
Buffer make_buffer(const graph::ValueType& type, int64_t batch, size_t shift = 0);

// Elements of a floating value as doubles.
std::vector<double> to_doubles(const Buffer& buffer, DType dtype);

}  // namespace plimsoll::ops_test
