#include "base/bytes.h"

#include <gtest/gtest.h>

#include "unit/base/expect_error.h"

namespace plimsoll {
namespace {

using test::expect_error;

TEST(Bytes, PrintsThreeDigitsInBinaryUnits) {
  EXPECT_EQ(to_string(Bytes(0)), "0 B");
  EXPECT_EQ(to_string(Bytes(1023)), "1023 B");
  EXPECT_EQ(to_string(1_KiB), "1 KiB");
  EXPECT_EQ(to_string(Bytes(1536)), "1.5 KiB");
  EXPECT_EQ(to_string(64_MiB), "64 MiB");
  EXPECT_EQ(to_string(Bytes(3672000000)), "3.42 GiB");
  EXPECT_EQ(to_string(Bytes((int64_t{1} << 20) - 1)), "1 MiB");
  EXPECT_EQ(to_string(Bytes(1000 * 1024)), "1000 KiB");
  EXPECT_EQ(to_string(Bytes(-1536)), "-1.5 KiB");
  EXPECT_EQ(to_string(Bytes(INT64_MAX)), "8 EiB");
}

TEST(Bytes, ReadsTheSpellingsOfUsers) {
  const Bytes whole = 1_GiB;
  EXPECT_EQ(parse_bytes("512MiB", whole), 512_MiB);
  EXPECT_EQ(parse_bytes("2GB", whole), Bytes(2'000'000'000));
  EXPECT_EQ(parse_bytes("1.5GiB", whole), Bytes(3) * (int64_t{1} << 29));
  EXPECT_EQ(parse_bytes("4096", whole), Bytes(4096));
  EXPECT_EQ(parse_bytes("75%", whole), 768_MiB);
  EXPECT_EQ(parse_bytes("12.5%", whole), 128_MiB);
  EXPECT_EQ(parse_bytes(" 64 mib ", whole), 64_MiB);
  EXPECT_EQ(parse_bytes("1kB", whole), Bytes(1000));
  EXPECT_EQ(parse_bytes("0.1kB", whole), Bytes(100));
  EXPECT_EQ(parse_bytes("9223372036854775807", whole), Bytes(INT64_MAX));
}

TEST(Bytes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "MiB", "-1", "-5MiB", "12 parsecs", "1e9", "64M", "1..5GiB", "5%%",
                           "9223372036854775808", "9000000TiB", "0x10", "nan"}) {
    expect_error(ErrorKind::kConfig, "512MiB", [&] { parse_bytes(text, 1_GiB); });
  }
}

TEST(Bytes, EveryByteCountIsReadBackFromItsPlainForm) {
  for (int64_t count : {int64_t{0}, int64_t{1}, int64_t{123456789012345}, INT64_MAX}) {
    EXPECT_EQ(parse_bytes(std::to_string(count) + "B", Bytes(1)), Bytes(count));
  }
}

TEST(Bytes, RoundsUpToAlignment) {
  EXPECT_EQ(round_up(Bytes(0), 64_B), Bytes(0));
  EXPECT_EQ(round_up(Bytes(1), 64_B), Bytes(64));
  EXPECT_EQ(round_up(Bytes(64), 64_B), Bytes(64));
}

}  // namespace
}  // namespace plimsoll
