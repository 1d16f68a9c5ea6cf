// Readings through the library's own interface, from a library with two devices that are not there.

#include "watch/measure/nvml.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace plimsoll::watch {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

TEST(Nvml, ReadsAllDevices) {
  const std::unique_ptr<Nvml> nvml = Nvml::open(PLIMSOLL_FAKE_NVML);
  ASSERT_NE(nvml, nullptr);
  EXPECT_EQ(nvml->device_count(), 2);
  EXPECT_EQ(nvml->device_name(1), "Fake B");
  const GpuReading reading = nvml->read({100, 201});
  EXPECT_EQ(reading.process_bytes, kGiB + kGiB + 2 * kGiB);
  EXPECT_EQ(reading.used_bytes, 5 * kGiB);
  EXPECT_EQ(reading.total_bytes, 16 * kGiB);
  EXPECT_DOUBLE_EQ(*reading.busy, 0.85);
  EXPECT_DOUBLE_EQ(*reading.celsius, 71);
  EXPECT_DOUBLE_EQ(*reading.watts, 301);
  EXPECT_TRUE(reading.throttled);
}

TEST(Nvml, OtherProcessesAreNotCounted) {
  const std::unique_ptr<Nvml> nvml = Nvml::open(PLIMSOLL_FAKE_NVML);
  ASSERT_NE(nvml, nullptr);
  EXPECT_EQ(nvml->read({99, 300}).process_bytes, 0);
}

TEST(Nvml, ADriverThatDoesNotTellProcessesApartGivesNoFigureOfThem) {
  ::setenv("FAKE_NVML_OLD_DRIVER", "1", 1);
  const std::unique_ptr<Nvml> nvml = Nvml::open(PLIMSOLL_FAKE_NVML);
  ASSERT_NE(nvml, nullptr);
  const GpuReading reading = nvml->read({100});
  ::unsetenv("FAKE_NVML_OLD_DRIVER");
  EXPECT_FALSE(reading.process_bytes.has_value());
  EXPECT_EQ(reading.used_bytes, 5 * kGiB);
}

TEST(Nvml, WithoutTheLibraryThereIsNone) {
  EXPECT_EQ(Nvml::open("libplimsoll-no-such-library.so"), nullptr);
  // A library, but not that one.
  EXPECT_EQ(Nvml::open("libc.so.6"), nullptr);
}

}  // namespace
}  // namespace plimsoll::watch
