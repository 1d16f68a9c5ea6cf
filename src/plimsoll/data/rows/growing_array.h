#pragma once

// An array of plain values that grows without being copied.
//
// A std::vector that grows holds its old and its new memory at once, and a large one half of it
// again; realloc moves the pages of a large array instead. For tables as long as a folder is.
// Internal to data.

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

namespace plimsoll::data {

template <typename T>
class GrowingArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return values_.get(); }
  const T* data() const { return values_.get(); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t index) { return values_[index]; }
  const T& operator[](size_t index) const { return values_[index]; }
  // Bytes that are taken, or may be by what was asked for.
  size_t held_bytes() const { return capacity_ * sizeof(T); }

  void push_back(const T& value) { append({&value, 1}); }
  void append(std::span<const T> values) {
    if (values.size() > capacity_ - size_) {
      constexpr size_t kLeast = 64;
      resize_memory(size_ + values.size() + size_ / 4 + kLeast);
    }
    std::copy(values.begin(), values.end(), end());
    size_ += values.size();
  }
  // The first `size` of them; the rest's memory is given back.
  void truncate(size_t size) {
    size_ = size;
    shrink_to_fit();
  }
  void shrink_to_fit() {
    if (size_ > 0) resize_memory(size_);
  }

 private:
  struct Free {
    void operator()(T* values) const { std::free(values); }
  };

  void resize_memory(size_t capacity) {
    void* const moved = std::realloc(values_.get(), capacity * sizeof(T));
    if (moved == nullptr) throw std::bad_alloc();
    values_.release();
    values_.reset(static_cast<T*>(moved));
    capacity_ = capacity;
  }

  std::unique_ptr<T[], Free> values_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace plimsoll::data
