#include "base/hash.h"

#include <algorithm>
#include <array>
#include <bit>

namespace plimsoll {
namespace {

// The constants and steps of xxHash64 (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87u;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9u;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63u;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5u;

uint64_t read_little(const std::byte* bytes, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i) value |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

uint64_t round_lane(uint64_t lane, uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

uint64_t merge_lane(uint64_t hash, uint64_t lane) {
  return (hash ^ round_lane(0, lane)) * kPrime1 + kPrime4;
}

uint64_t finish_tail(uint64_t hash, std::span<const std::byte> tail) {
  const std::byte* at = tail.data();
  size_t left = tail.size();
  for (; left >= 8; at += 8, left -= 8) {
    hash = std::rotl(hash ^ round_lane(0, read_little(at, 8)), 27) * kPrime1 + kPrime4;
  }
  if (left >= 4) {
    hash = std::rotl(hash ^ (read_little(at, 4) * kPrime1), 23) * kPrime2 + kPrime3;
    at += 4;
    left -= 4;
  }
  for (; left > 0; ++at, --left) {
    hash = std::rotl(hash ^ (read_little(at, 1) * kPrime5), 11) * kPrime1;
  }
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed) {
  HashStream stream(seed);
  stream.add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return stream.value();
}

HashStream::HashStream(uint64_t seed)
    : seed_(seed), lanes_{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1} {}

void HashStream::take(const std::byte* bytes) {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i] = round_lane(lanes_[i], read_little(bytes + 8 * i, 8));
  }
}

void HashStream::add(std::string_view piece) {
  const auto* at = reinterpret_cast<const std::byte*>(piece.data());
  size_t left = piece.size();
  size_t waiting = length_ % waiting_.size();
  length_ += left;
  if (waiting > 0) {
    const size_t more = std::min(left, waiting_.size() - waiting);
    std::copy_n(at, more, waiting_.data() + waiting);
    at += more;
    left -= more;
    waiting += more;
    if (waiting < waiting_.size()) return;
    take(waiting_.data());
  }
  for (; left >= waiting_.size(); at += waiting_.size(), left -= waiting_.size()) take(at);
  std::copy_n(at, left, waiting_.data());
}

uint64_t HashStream::value() const {
  const std::span<const std::byte> rest = std::span(waiting_).first(length_ % waiting_.size());
  if (length_ < waiting_.size()) return finish_tail(seed_ + kPrime5 + length_, rest);
  uint64_t hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
                  std::rotl(lanes_[3], 18);
  for (uint64_t lane : lanes_) hash = merge_lane(hash, lane);
  return finish_tail(hash + length_, rest);
}

uint64_t hash_text(std::string_view text, uint64_t seed) {
  return hash_bytes(std::as_bytes(std::span(text)), seed);
}

std::string to_hex(uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = kDigits[(value >> (60 - 4 * i)) & 15];
  return text;
}

}  // namespace plimsoll
