#pragma once

// Little-endian fields taken one after another from a piece of memory, and put into one.
//
// Taking past the end never reads: it throws what the owner's `fail` throws. Internal to codec.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::codec {

class ByteCursor {
 public:
  // `fail` must throw; it is called with what is wrong.
  using Fail = std::function<void(const std::string&)>;

  ByteCursor(std::span<const std::byte> bytes, const Fail& fail) : bytes_(bytes), fail_(&fail) {}

  size_t position() const { return position_; }
  size_t left() const { return bytes_.size() - position_; }

  // An unsigned number of 1 to 8 bytes.
  uint64_t take(uint64_t byte_count) {
    need(byte_count);
    uint64_t value = 0;
    for (uint64_t i = 0; i < byte_count; ++i) {
      value |= std::to_integer<uint64_t>(bytes_[position_++]) << (8 * i);
    }
    return value;
  }
  std::span<const std::byte> take_bytes(uint64_t count) {
    need(count);
    const auto part = bytes_.subspan(position_, static_cast<size_t>(count));
    position_ += static_cast<size_t>(count);
    return part;
  }
  std::string take_text(uint64_t count) {
    const auto part = take_bytes(count);
    return std::string(reinterpret_cast<const char*>(part.data()), part.size());
  }
  void skip(uint64_t count) { take_bytes(count); }
  // Moves forward to a multiple of `alignment` from the start, or to the end where that is nearer.
  void align(size_t alignment) {
    const size_t rest = position_ % alignment;
    if (rest != 0) position_ += std::min(alignment - rest, left());
  }

 private:
  void need(uint64_t count) const {
    if (count > left()) {
      (*fail_)("a field of " + std::to_string(count) + " bytes where " + std::to_string(left()) +
               " are left");
    }
  }

  std::span<const std::byte> bytes_;
  const Fail* fail_;
  size_t position_ = 0;
};

// Appends little-endian fields.
class ByteBuilder {
 public:
  size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }

  ByteBuilder& put(uint64_t value, int byte_count) {
    for (int i = 0; i < byte_count; ++i) {
      bytes_.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xFF));
    }
    return *this;
  }
  ByteBuilder& put_text(std::string_view text) { return put_bytes(std::as_bytes(std::span(text))); }
  ByteBuilder& put_bytes(std::span<const std::byte> part) {
    bytes_.insert(bytes_.end(), part.begin(), part.end());
    return *this;
  }
  // Zero bytes up to a size.
  ByteBuilder& pad_to(size_t size) {
    if (size > bytes_.size()) bytes_.resize(size);
    return *this;
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace plimsoll::codec
