#include "report/units.h"

#include <gtest/gtest.h>

namespace plimsoll::report {
namespace {

TEST(Units, TheLargestFigureChoosesTheUnit) {
  EXPECT_STREQ(size_unit(1023_KiB).name, "KiB");
  EXPECT_STREQ(size_unit(64_MiB).name, "MiB");
  EXPECT_STREQ(time_unit(0.03).name, "ms");
  EXPECT_STREQ(count_unit(7e6).name, "million");
}

TEST(Units, WhatIsNotNothingNeverReadsAsNothing) {
  const Unit mib = size_unit(64_MiB);
  EXPECT_EQ(in_unit(64_MiB, mib), "64.0");
  EXPECT_EQ(in_unit(12_KiB, mib), "<0.1");
  EXPECT_EQ(in_unit(Bytes(), mib), "0.0");
  EXPECT_EQ(amount(Bytes(12), mib), "12 B");
  EXPECT_EQ(amount(6_MiB, mib), "6.0 MiB");
}

TEST(Units, WhatIsNamedAsEnoughIs) {
  for (int64_t bytes = 1; bytes < (int64_t{1} << 42); bytes = bytes * 3 + 1) {
    const std::string option = size_option(Bytes(bytes));
    const Bytes read = parse_bytes(option, Bytes());
    EXPECT_GE(read.count(), bytes) << option;
    EXPECT_LE(static_cast<double>(read.count()), 1.11 * static_cast<double>(bytes) + 1) << option;
  }
}

}  // namespace
}  // namespace plimsoll::report
