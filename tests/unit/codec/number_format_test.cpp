#include "codec/number_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "unit/base/expect_error.h"

namespace plimsoll::codec {
namespace {

using Kind = NumberFormat::Kind;

template <typename Source, typename Target>
std::pair<std::vector<Target>, int64_t> convert(const NumberFormat& from,
                                                const std::vector<Source>& source, DType to) {
  std::vector<std::byte> bytes(source.size() * sizeof(Source));
  std::memcpy(bytes.data(), source.data(), bytes.size());
  if (from.big_endian) {
    for (size_t i = 0; i < bytes.size(); i += sizeof(Source)) {
      std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                   bytes.begin() + static_cast<std::ptrdiff_t>(i + sizeof(Source)));
    }
  }
  std::vector<Target> target(source.size());
  const int64_t bad =
      convert_numbers(from, bytes.data(), to, target.data(), static_cast<int64_t>(source.size()));
  return {target, bad};
}

TEST(NumberFormat, ConvertsEveryIntegerToFloat) {
  const std::vector<uint8_t> pixels = {0, 1, 128, 255};
  EXPECT_EQ((convert<uint8_t, float>({Kind::kUnsigned, 1, false}, pixels, DType::kFloat32)),
            (std::pair(std::vector<float>{0, 1, 128, 255}, int64_t{-1})));
  EXPECT_EQ((convert<int16_t, double>({Kind::kSigned, 2, true}, {-2, 300}, DType::kFloat64).first),
            (std::vector<double>{-2, 300}));
  EXPECT_EQ(
      (convert<uint32_t, float>({Kind::kUnsigned, 4, true}, {4000000000u}, DType::kFloat32).first),
      (std::vector<float>{4e9f}));
  EXPECT_EQ((convert<uint8_t, int32_t>({Kind::kBool, 1, false}, {0, 1, 7}, DType::kInt32).first),
            (std::vector<int32_t>{0, 1, 1}));
}

TEST(NumberFormat, Float64RoundsToNearestAndOverflowsToInfinity) {
  const auto [values, bad] =
      convert<double, float>({Kind::kFloat, 8, true}, {0.1, 1e300, -1e-300}, DType::kFloat32);
  EXPECT_EQ(bad, -1);
  EXPECT_EQ(values, (std::vector<float>{0.1f, std::numeric_limits<float>::infinity(), -0.0f}));
}

TEST(NumberFormat, IntegersAreNeverWrapped) {
  const auto wide = [](int64_t value) {
    return convert<int64_t, int32_t>({Kind::kSigned, 8, false}, {1, value}, DType::kInt32);
  };
  EXPECT_EQ(wide(INT32_MAX), (std::pair(std::vector<int32_t>{1, INT32_MAX}, int64_t{-1})));
  EXPECT_EQ(wide(int64_t{INT32_MAX} + 1).second, 1);
  EXPECT_EQ(wide(int64_t{INT32_MIN} - 1).second, 1);
  const auto real = [](double value) {
    return convert<double, int32_t>({Kind::kFloat, 8, false}, {value}, DType::kInt32);
  };
  EXPECT_EQ(real(3.0), (std::pair(std::vector<int32_t>{3}, int64_t{-1})));
  EXPECT_EQ(real(-2147483648.0).second, -1);
  EXPECT_EQ(real(2147483648.0).second, 0);
  EXPECT_EQ(real(0.5).second, 0);
  EXPECT_EQ(real(std::nan("")).second, 0);
  EXPECT_EQ(
      (convert<uint64_t, int64_t>({Kind::kUnsigned, 8, false}, {UINT64_MAX}, DType::kInt64).second),
      0);
}

TEST(NumberFormat, EveryHalfGoesThereAndBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
    } else {
      ASSERT_EQ(float_to_half(value), half);
    }
  }
  EXPECT_EQ(half_to_float(0x3C00), 1.0f);
  EXPECT_EQ(half_to_float(0x7BFF), 65504.0f);
  EXPECT_EQ(half_to_float(0x0001), 0x1.0p-24f);
}

TEST(NumberFormat, HalfRoundsToNearestEven) {
  EXPECT_EQ(float_to_half(1.0f + 0x1.0p-11f), 0x3C00);      // tie to even
  EXPECT_EQ(float_to_half(1.0f + 3 * 0x1.0p-11f), 0x3C02);  // tie to even, upwards
  EXPECT_EQ(float_to_half(1.0f + 0x1.2p-11f), 0x3C01);      // just above a tie
  EXPECT_EQ(float_to_half(65519.0f), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0f), 0x7C00);    // infinity
  EXPECT_EQ(float_to_half(0x1.0p-25f), 0x0000);  // tie to even at zero
  EXPECT_EQ(float_to_half(0x1.8p-25f), 0x0001);
  EXPECT_EQ(float_to_half(-1e30f), 0xFC00);
}

TEST(NumberFormat, BrainFloatIsTheUpperHalf) {
  EXPECT_EQ((convert<uint16_t, float>({Kind::kBFloat, 2, false}, {0x3F80, 0xC000}, DType::kFloat32)
                 .first),
            (std::vector<float>{1.0f, -2.0f}));
}

TEST(NumberFormat, NativeFormatsAreCopied) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16,
                      DType::kInt32, DType::kInt64, DType::kInt8, DType::kUInt8, DType::kBool}) {
    EXPECT_EQ(native_dtype(native_format(dtype)), dtype);
    EXPECT_TRUE(can_convert(native_format(dtype), dtype));
  }
  EXPECT_EQ(native_dtype({Kind::kUnsigned, 2, false}), std::nullopt);
  EXPECT_EQ(native_dtype({Kind::kFloat, 4, true}), std::nullopt);
  EXPECT_EQ((convert<int8_t, int8_t>({Kind::kSigned, 1, false}, {-3}, DType::kInt8).first),
            (std::vector<int8_t>{-3}));
  EXPECT_EQ((convert<uint16_t, uint16_t>({Kind::kFloat, 2, true}, {0x1234}, DType::kFloat16).first),
            (std::vector<uint16_t>{0x1234}));
  EXPECT_FALSE(can_convert({Kind::kFloat, 4, false}, DType::kUInt8));
  EXPECT_FALSE(can_convert({Kind::kFloat, 4, false}, DType::kBits));
  test::expect_error(ErrorKind::kInternal, "no numbers", [] { native_format(DType::kBits); });
}

TEST(NumberFormat, SaysWhatItIs) {
  EXPECT_EQ(to_string(NumberFormat{Kind::kFloat, 8, true}), "big-endian float64");
  EXPECT_EQ(to_string(NumberFormat{Kind::kUnsigned, 1, false}), "uint8");
  const double pi = 3.5;
  EXPECT_EQ(number_text({Kind::kFloat, 8, false}, reinterpret_cast<const std::byte*>(&pi)), "3.5");
  const uint64_t large = UINT64_MAX;
  EXPECT_EQ(number_text({Kind::kUnsigned, 8, false}, reinterpret_cast<const std::byte*>(&large)),
            "18446744073709551615");
}

}  // namespace
}  // namespace plimsoll::codec
