#pragma once

// A stable 64-bit hash for fingerprints (graphs, kernel sets, plans, cache keys).
//
// The same bytes give the same hash on every machine and in every version; it is stored in files.
// It is xxHash64 and guards against accidents, not against malice.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed = 0);
uint64_t hash_text(std::string_view text, uint64_t seed = 0);

// A bijection of 64 bits in which every input bit reaches every output bit (splitmix64's finisher).
constexpr uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The hash of a sequence of parts; the order and the borders between texts count.
class Fingerprint {
 public:
  Fingerprint& add(uint64_t value) {
    state_ = mix_bits(state_ * 0x9E3779B97F4A7C15u + value + 1);
    return *this;
  }
  Fingerprint& add(std::string_view text) { return add(hash_text(text)).add(text.size()); }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0;
};

// hash_bytes() of a text that comes in pieces, so that nobody has to hold all of it.
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

// Sixteen hexadecimal digits.
std::string to_hex(uint64_t value);

}  // namespace plimsoll
