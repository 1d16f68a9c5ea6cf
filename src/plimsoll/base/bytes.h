#pragma once

// A count of bytes as a type of its own, and its text form.
//
// Bytes never mixes silently with element counts or indices. Text forms accepted from users are
// `512MiB`, `2GB`, `75%`, `4096`, `1.5GiB`; KiB, MiB, GiB, TiB are binary, kB, MB, GB, TB decimal.

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(int64_t count) : count_(count) {}

  constexpr int64_t count() const { return count_; }
  constexpr size_t size() const { return static_cast<size_t>(count_); }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  constexpr Bytes& operator+=(Bytes other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes(a.count_ + b.count_); }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes(a.count_ - b.count_); }
  friend constexpr Bytes operator*(Bytes a, int64_t factor) { return Bytes(a.count_ * factor); }
  friend constexpr Bytes operator*(int64_t factor, Bytes a) { return a * factor; }
  friend constexpr int64_t operator/(Bytes a, Bytes b) { return a.count_ / b.count_; }

 private:
  int64_t count_ = 0;
};

// Smallest multiple of `alignment` (a power of two) that is not below `value`.
constexpr Bytes round_up(Bytes value, Bytes alignment) {
  const int64_t mask = alignment.count() - 1;
  return Bytes((value.count() + mask) & ~mask);
}
constexpr Bytes max(Bytes a, Bytes b) { return a < b ? b : a; }
constexpr Bytes min(Bytes a, Bytes b) { return b < a ? b : a; }

// "0 B", "1023 B", "1.5 KiB", "64 MiB", "3.42 GiB": three significant digits, binary units.
std::string to_string(Bytes value);

// Reads a user's size. `whole` is what a percentage refers to. Throws kConfig with the accepted
// spellings when the text is none of them, is negative, or does not fit 63 bits.
Bytes parse_bytes(std::string_view text, Bytes whole);

inline namespace literals {
constexpr Bytes operator""_B(unsigned long long n) { return Bytes(static_cast<int64_t>(n)); }
constexpr Bytes operator""_KiB(unsigned long long n) {
  return Bytes(static_cast<int64_t>(n << 10));
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes(static_cast<int64_t>(n << 20));
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return Bytes(static_cast<int64_t>(n << 30));
}
}  // namespace literals

}  // namespace plimsoll
