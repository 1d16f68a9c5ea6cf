#include "codec/number_format.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/format.h"

namespace plimsoll::codec {
namespace {

using Kind = NumberFormat::Kind;

// Numbers that C++ has no type for, as they lie in the file.
struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};
struct Flag {
  uint8_t bits;
};

template <size_t kBytes>
using Unsigned = std::conditional_t<
    kBytes == 1, uint8_t,
    std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>>;

template <typename Bits>
Bits swap_bytes(Bits bits) {
  if constexpr (sizeof(Bits) == 2) return __builtin_bswap16(bits);
  if constexpr (sizeof(Bits) == 4) return __builtin_bswap32(bits);
  if constexpr (sizeof(Bits) == 8) return __builtin_bswap64(bits);
  return bits;
}

template <typename Source, bool kSwap>
auto load(const std::byte* at) {
  Unsigned<sizeof(Source)> bits;
  std::memcpy(&bits, at, sizeof(bits));
  if constexpr (kSwap) bits = swap_bytes(bits);
  const auto stored = std::bit_cast<Source>(bits);
  if constexpr (std::is_same_v<Source, Half>) {
    return half_to_float(stored.bits);
  } else if constexpr (std::is_same_v<Source, BFloat>) {
    return std::bit_cast<float>(static_cast<uint32_t>(stored.bits) << 16);
  } else if constexpr (std::is_same_v<Source, Flag>) {
    return static_cast<uint8_t>(stored.bits != 0);
  } else {
    return stored;
  }
}

// Whether an integer type holds the value exactly.
template <typename Target, typename Value>
bool holds(Value value) {
  if constexpr (std::is_floating_point_v<Value>) {
    // Both bounds are powers of two, so they are exact in either floating type; NaN fails them.
    constexpr Value kBelow = static_cast<Value>(std::numeric_limits<Target>::min());
    return value >= kBelow && value < -kBelow && std::trunc(value) == value;
  } else if constexpr (std::is_signed_v<Value>) {
    return value >= std::numeric_limits<Target>::min() &&
           value <= std::numeric_limits<Target>::max();
  } else {
    return value <= static_cast<uint64_t>(std::numeric_limits<Target>::max());
  }
}

template <typename Source, bool kSwap, typename Target>
int64_t convert_loop(const std::byte* source, Target* destination, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const auto value = load<Source, kSwap>(source + i * static_cast<int64_t>(sizeof(Source)));
    if constexpr (std::is_integral_v<Target>) {
      if (!holds<Target>(value)) return i;
    }
    destination[i] = static_cast<Target>(value);
  }
  return -1;
}

template <typename Source, typename Target>
int64_t convert_order(bool big_endian, const std::byte* source, Target* destination,
                      int64_t count) {
  if (sizeof(Source) > 1 && big_endian) {
    return convert_loop<Source, true>(source, destination, count);
  }
  return convert_loop<Source, false>(source, destination, count);
}

// Calls `body` with a value of the C++ type that the format has in memory.
template <typename Body>
auto with_source_type(const NumberFormat& format, Body&& body) {
  switch (format.kind) {
    case Kind::kFloat:
      if (format.bytes == 2) return body(Half{});
      if (format.bytes == 4) return body(float{});
      return body(double{});
    case Kind::kBFloat:
      return body(BFloat{});
    case Kind::kSigned:
      if (format.bytes == 1) return body(int8_t{});
      if (format.bytes == 2) return body(int16_t{});
      if (format.bytes == 4) return body(int32_t{});
      return body(int64_t{});
    case Kind::kUnsigned:
      if (format.bytes == 1) return body(uint8_t{});
      if (format.bytes == 2) return body(uint16_t{});
      if (format.bytes == 4) return body(uint32_t{});
      return body(uint64_t{});
    case Kind::kBool:
      break;
  }
  return body(Flag{});
}

template <typename Target>
int64_t convert_to(const NumberFormat& from, const std::byte* source, void* destination,
                   int64_t count) {
  return with_source_type(from, [&](auto type) {
    return convert_order<decltype(type)>(from.big_endian, source, static_cast<Target*>(destination),
                                         count);
  });
}

bool same_elements(const NumberFormat& a, const NumberFormat& b) {
  return a.kind == b.kind && a.bytes == b.bytes;
}

void copy_same(const NumberFormat& from, const std::byte* source, void* destination,
               int64_t count) {
  const auto size = static_cast<size_t>(from.bytes);
  auto* target = static_cast<std::byte*>(destination);
  const auto elements = static_cast<size_t>(count);
  if (from.kind == Kind::kBool) {
    for (size_t i = 0; i < elements; ++i) target[i] = std::byte{source[i] != std::byte{0}};
  } else if (size == 1 || !from.big_endian) {
    std::memcpy(target, source, elements * size);
  } else {
    for (size_t i = 0; i < elements * size; i += size) {
      for (size_t j = 0; j < size; ++j) target[i + j] = source[i + size - 1 - j];
    }
  }
}

}  // namespace

std::string to_string(const NumberFormat& format) {
  const std::string bits = std::to_string(8 * format.bytes);
  std::string name;
  switch (format.kind) {
    case Kind::kFloat:
      name = "float" + bits;
      break;
    case Kind::kBFloat:
      name = "bfloat16";
      break;
    case Kind::kSigned:
      name = "int" + bits;
      break;
    case Kind::kUnsigned:
      name = "uint" + bits;
      break;
    case Kind::kBool:
      name = "bool";
      break;
  }
  return format.big_endian && format.bytes > 1 ? "big-endian " + name : name;
}

NumberFormat native_format(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return {Kind::kFloat, 4, false};
    case DType::kFloat64:
      return {Kind::kFloat, 8, false};
    case DType::kBFloat16:
      return {Kind::kBFloat, 2, false};
    case DType::kFloat16:
      return {Kind::kFloat, 2, false};
    case DType::kInt32:
      return {Kind::kSigned, 4, false};
    case DType::kInt64:
      return {Kind::kSigned, 8, false};
    case DType::kInt8:
      return {Kind::kSigned, 1, false};
    case DType::kUInt8:
      return {Kind::kUnsigned, 1, false};
    case DType::kBool:
      return {Kind::kBool, 1, false};
    case DType::kBits:
    case DType::kOpaque:
      break;
  }
  PLIMSOLL_CHECK(false, std::string(to_string(dtype)) + " elements are no numbers");
  return {};
}

std::optional<DType> native_dtype(const NumberFormat& format) {
  if (format.big_endian && format.bytes > 1) return std::nullopt;
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16,
                      DType::kInt32, DType::kInt64, DType::kInt8, DType::kUInt8, DType::kBool}) {
    if (same_elements(native_format(dtype), format)) return dtype;
  }
  return std::nullopt;
}

bool can_convert(const NumberFormat& from, DType to) {
  switch (to) {
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kInt32:
    case DType::kInt64:
      return true;
    case DType::kBits:
    case DType::kOpaque:
      return false;
    default:
      return same_elements(native_format(to), from);
  }
}

int64_t convert_numbers(const NumberFormat& from, const std::byte* source, DType to,
                        void* destination, int64_t count) {
  PLIMSOLL_CHECK(can_convert(from, to),
                 fmt::format("no conversion of {} to {}", to_string(from), to_string(to)));
  if (count == 0) return -1;
  if (same_elements(native_format(to), from)) {
    copy_same(from, source, destination, count);
    return -1;
  }
  switch (to) {
    case DType::kFloat32:
      return convert_to<float>(from, source, destination, count);
    case DType::kFloat64:
      return convert_to<double>(from, source, destination, count);
    case DType::kInt32:
      return convert_to<int32_t>(from, source, destination, count);
    default:
      return convert_to<int64_t>(from, source, destination, count);
  }
}

std::string number_text(const NumberFormat& format, const std::byte* source) {
  if (format.kind == Kind::kFloat || format.kind == Kind::kBFloat) {
    double value = 0;
    convert_numbers(format, source, DType::kFloat64, &value, 1);
    return fmt::format("{:.9g}", value);
  }
  int64_t value = 0;
  // Only an unsigned number of 64 bits has values beyond int64.
  if (convert_numbers(format, source, DType::kInt64, &value, 1) < 0) return std::to_string(value);
  return std::to_string(format.big_endian ? load<uint64_t, true>(source)
                                          : load<uint64_t, false>(source));
}

float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u;
  const uint32_t mantissa = half & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1.0p-24f;  // subnormal, or zero
  return sign != 0 ? -magnitude : magnitude;
}

uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u);   // NaN
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7C00u);  // 2^16 and above
  if (magnitude < 0x38800000u) {
    // Below 2^-14: a multiple of 2^-24, which adding 1/2 to the magnitude rounds to in float32.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  const uint32_t rounded = magnitude + 0x0FFFu + odd - (112u << 23);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

}  // namespace plimsoll::codec
