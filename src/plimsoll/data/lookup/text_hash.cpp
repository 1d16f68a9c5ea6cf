#include "data/lookup/text_hash.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

namespace plimsoll::data {
namespace {

constexpr uint64_t kFirst = 0xc3a5c85c97cb3127;
constexpr uint64_t kSecond = 0xb492b66fbe98f273;
constexpr uint64_t kThird = 0x9ae16a3b2f90404f;

using Pair = std::pair<uint64_t, uint64_t>;

template <typename Word>
uint64_t word_at(const char* text) {
  static_assert(std::endian::native == std::endian::little);
  Word word = 0;
  std::memcpy(&word, text, sizeof(word));
  return word;
}

uint64_t word(const char* text) { return word_at<uint64_t>(text); }

uint64_t mixed(uint64_t value) { return value ^ (value >> 47); }

// Two words into one, by Murmur's steps.
uint64_t joined(uint64_t u, uint64_t v, uint64_t factor) {
  const uint64_t a = mixed((u ^ v) * factor);
  return mixed((v ^ a) * factor) * factor;
}

uint64_t hash_to_16(const char* s, size_t length) {
  const uint64_t factor = kThird + length * 2;
  if (length >= 8) {
    const uint64_t a = word(s) + kThird;
    const uint64_t b = word(s + length - 8);
    return joined(std::rotr(b, 37) * factor + a, (std::rotr(a, 25) + b) * factor, factor);
  }
  if (length >= 4) {
    return joined(length + (word_at<uint32_t>(s) << 3), word_at<uint32_t>(s + length - 4), factor);
  }
  if (length == 0) return kThird;
  const auto byte = [&](size_t at) { return static_cast<uint64_t>(static_cast<uint8_t>(s[at])); };
  const uint64_t y = byte(0) + (byte(length >> 1) << 8);
  const uint64_t z = length + (byte(length - 1) << 2);
  return mixed(y * kThird ^ z * kFirst) * kThird;
}

uint64_t hash_to_32(const char* s, size_t length) {
  const uint64_t factor = kThird + length * 2;
  const uint64_t a = word(s) * kSecond;
  const uint64_t b = word(s + 8);
  const uint64_t c = word(s + length - 8) * factor;
  const uint64_t d = word(s + length - 16) * kThird;
  return joined(std::rotr(a + b, 43) + std::rotr(c, 30) + d, a + std::rotr(b + kThird, 18) + c,
                factor);
}

uint64_t hash_to_64(const char* s, size_t length) {
  const uint64_t factor = kThird + length * 2;
  const uint64_t a = word(s) * kThird;
  const uint64_t b = word(s + 8);
  const uint64_t c = word(s + length - 8) * factor;
  const uint64_t d = word(s + length - 16) * kThird;
  const uint64_t y = std::rotr(a + b, 43) + std::rotr(c, 30) + d;
  const uint64_t z = joined(y, a + std::rotr(b + kThird, 18) + c, factor);
  const uint64_t e = word(s + 16) * factor;
  const uint64_t f = word(s + 24);
  const uint64_t g = (y + word(s + length - 32)) * factor;
  const uint64_t h = (z + word(s + length - 24)) * factor;
  return joined(std::rotr(e + f, 43) + std::rotr(g, 30) + h, e + std::rotr(f + a, 18) + g, factor);
}

// 32 bytes and two seeds into two words.
Pair folded(const char* s, uint64_t a, uint64_t b) {
  const uint64_t last = word(s + 24);
  a += word(s);
  b = std::rotr(b + a + last, 21);
  const uint64_t c = a;
  a += word(s + 8) + word(s + 16);
  b += std::rotr(a, 44);
  return {a + last, b + c};
}

// What goes on from one 64 bytes of a long text to the next.
struct LongHash {
  uint64_t x = 81;
  uint64_t y = 81 * kSecond + 113;
  uint64_t z = mixed((81 * kSecond + 113) * kThird + 113) * kThird;
  Pair v{0, 0};
  Pair w{0, 0};

  // `times` is 9 for the last 64 bytes, 1 for others.
  void take(const char* s, uint64_t factor, uint64_t times) {
    x = std::rotr(x + y + v.first + word(s + 8), 37) * factor;
    y = std::rotr(y + v.second + word(s + 48), 42) * factor;
    x ^= w.second * times;
    y += v.first * times + word(s + 40);
    z = std::rotr(z + w.first, 33) * factor;
    v = folded(s, v.second * factor, x + w.first);
    w = folded(s + 32, z + w.second, y + word(s + 16));
    std::swap(z, x);
  }
};

uint64_t hash_long(const char* s, size_t length) {
  LongHash state;
  state.x = state.x * kThird + word(s);
  const char* const end = s + (length - 1) / 64 * 64;
  const uint64_t rest = (length - 1) & 63;
  for (; s != end; s += 64) state.take(s, kSecond, 1);
  const uint64_t factor = kSecond + ((state.z & 0xff) << 1);
  state.w.first += rest;
  state.v.first += state.w.first;
  state.w.first += state.v.first;
  state.take(end + rest - 63, factor, 9);
  const auto& [x, y, z, v, w] = state;
  return joined(joined(v.first, w.first, factor) + mixed(y) * kFirst + z,
                joined(v.second, w.second, factor) + x, factor);
}

// SipHash's state of four words.
struct SipState {
  uint64_t a, b, c, d;

  void round() {
    a += b;
    b = std::rotl(b, 13) ^ a;
    a = std::rotl(a, 32);
    c += d;
    d = std::rotl(d, 16) ^ c;
    a += d;
    d = std::rotl(d, 21) ^ a;
    c += b;
    b = std::rotl(b, 17) ^ c;
    c = std::rotl(c, 32);
  }
  void take(uint64_t word) {
    d ^= word;
    round();
    round();
    a ^= word;
  }
};

}  // namespace

uint64_t fingerprint64(std::string_view text) {
  const size_t length = text.size();
  if (length <= 16) return hash_to_16(text.data(), length);
  if (length <= 32) return hash_to_32(text.data(), length);
  if (length <= 64) return hash_to_64(text.data(), length);
  return hash_long(text.data(), length);
}

uint64_t keyed_hash64(std::string_view text, const std::array<uint64_t, 2>& key) {
  SipState state{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                 key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
  const size_t whole = text.size() / 8 * 8;
  for (size_t at = 0; at < whole; at += 8) state.take(word(text.data() + at));
  uint64_t last = static_cast<uint64_t>(text.size()) << 56;
  for (size_t at = whole; at < text.size(); ++at) {
    last |= static_cast<uint64_t>(static_cast<uint8_t>(text[at])) << (8 * (at - whole));
  }
  state.take(last);
  state.c ^= 0xff;
  for (int i = 0; i < 4; ++i) state.round();
  return state.a ^ state.b ^ state.c ^ state.d;
}

}  // namespace plimsoll::data
