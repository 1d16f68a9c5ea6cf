#include "codec/hdf5/hdf5_checksum.h"

#include <algorithm>
#include <bit>

namespace plimsoll::codec {
namespace {

struct Lookup3 {
  uint32_t a, b, c;

  void mix() {
    a = (a - c) ^ std::rotl(c, 4), c += b;
    b = (b - a) ^ std::rotl(a, 6), a += c;
    c = (c - b) ^ std::rotl(b, 8), b += a;
    a = (a - c) ^ std::rotl(c, 16), c += b;
    b = (b - a) ^ std::rotl(a, 19), a += c;
    c = (c - b) ^ std::rotl(b, 4), b += a;
  }
  void finish() {
    c = (c ^ b) - std::rotl(b, 14);
    a = (a ^ c) - std::rotl(c, 11);
    b = (b ^ a) - std::rotl(a, 25);
    c = (c ^ b) - std::rotl(b, 16);
    a = (a ^ c) - std::rotl(c, 4);
    b = (b ^ a) - std::rotl(a, 14);
    c = (c ^ b) - std::rotl(b, 24);
  }
};

// Up to four bytes from `at`, as far as there are any.
uint32_t word_at(std::span<const std::byte> bytes, size_t at) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4 && at + i < bytes.size(); ++i) {
    word |= std::to_integer<uint32_t>(bytes[at + i]) << (8 * i);
  }
  return word;
}

uint32_t fold(uint32_t sum) { return (sum & 0xFFFFu) + (sum >> 16); }

}  // namespace

uint32_t hdf5_lookup3(std::span<const std::byte> bytes) {
  const uint32_t start = 0xDEADBEEFu + static_cast<uint32_t>(bytes.size());
  Lookup3 state{start, start, start};
  size_t at = 0;
  for (; bytes.size() - at > 12; at += 12) {
    state.a += word_at(bytes, at);
    state.b += word_at(bytes, at + 4);
    state.c += word_at(bytes, at + 8);
    state.mix();
  }
  if (at == bytes.size()) return state.c;
  state.a += word_at(bytes, at);
  state.b += word_at(bytes, at + 4);
  state.c += word_at(bytes, at + 8);
  state.finish();
  return state.c;
}

void Hdf5Fletcher32::add(std::span<const std::byte> bytes) {
  constexpr size_t kWordsPerFold = 360;  // as many as cannot overflow
  size_t at = 0;
  while (bytes.size() - at >= 2) {
    const size_t words = std::min((bytes.size() - at) / 2, kWordsPerFold);
    for (size_t i = 0; i < words; ++i, at += 2) {
      first_ +=
          (std::to_integer<uint32_t>(bytes[at]) << 8) | std::to_integer<uint32_t>(bytes[at + 1]);
      second_ += first_;
    }
    first_ = fold(first_);
    second_ = fold(second_);
  }
  if (at < bytes.size()) {
    first_ += std::to_integer<uint32_t>(bytes[at]) << 8;
    second_ += first_;
    first_ = fold(first_);
    second_ = fold(second_);
  }
}

uint32_t Hdf5Fletcher32::value() const { return (fold(second_) << 16) | fold(first_); }

}  // namespace plimsoll::codec
