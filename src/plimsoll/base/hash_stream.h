#pragma once

// hash_bytes() (hash.h) of a text that comes in pieces, so that nobody has to hold all of it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plimsoll {

class HashStream {
 public:
  explicit HashStream(uint64_t seed = 0);
  void add(std::string_view piece);
  // The hash of all that was added.
  uint64_t value() const;

 private:
  void take(const std::byte* bytes);

  uint64_t seed_;
  uint64_t length_ = 0;
  std::array<uint64_t, 4> lanes_;
  std::array<std::byte, 32> waiting_{};  // length_ % 32 of them
};

}  // namespace plimsoll
