#include "ops/buffer.h"

#include <cstring>

namespace plimsoll::ops_test {
namespace {

constexpr size_t kGuard = 256;
constexpr std::byte kPattern{0xA5};

}  // namespace

Buffer::Buffer(size_t size, size_t shift)
    : storage_(size + shift + 2 * kGuard + 64, kPattern), size_(size) {
  const auto address = reinterpret_cast<uintptr_t>(storage_.data()) + kGuard;
  begin_ = kGuard + (64 - address % 64) % 64 + shift;
}

bool Buffer::guards_intact() const {
  for (size_t i = 0; i < storage_.size(); ++i) {
    if (i == begin_) i += size_;
    if (i < storage_.size() && storage_[i] != kPattern) return false;
  }
  return true;
}

Buffer Buffer::moved(size_t shift) const {
  Buffer copy(size_, shift);
  if (size_ > 0) std::memcpy(copy.data(), data(), size_);
  return copy;
}

bool Buffer::same_contents(const Buffer& other) const {
  return size_ == other.size_ && (size_ == 0 || std::memcmp(data(), other.data(), size_) == 0);
}

Buffer make_buffer(const graph::ValueType& type, int64_t batch, size_t shift) {
  return Buffer(tensor_bytes(type.dtype, type.shape, batch).size(), shift);
}

std::vector<double> to_doubles(const Buffer& buffer, DType dtype) {
  if (dtype == DType::kFloat64) {
    return {buffer.as<double>(), buffer.as<double>() + buffer.size() / sizeof(double)};
  }
  return {buffer.as<float>(), buffer.as<float>() + buffer.size() / sizeof(float)};
}

}  // namespace plimsoll::ops_test
