#include "planning/calibration.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::planning {
namespace {

using backend::KernelTimes;

const std::string kMachine = "onednn-3.2/r3/avx2/t2 A processor 1.2.3";

KernelTimes some_times() {
  KernelTimes times;
  times.date = "2026-05-28";
  times.copied = 9.5e9;
  times.streamed = 3.5e10;
  times.disks = {{"/var/tmp", 1.1e9, 2.2e9}, {"/a folder", 3e8, 4e8}};
  times.seconds.set(77, 1.25e-5);
  times.seconds.set(3, 0.125);
  times.factors.set(uint64_t{1} << 63, 1.5);
  times.rated = "2026-05-29";
  times.rates.set(5, 1.189207115002721);
  return times;
}

// What is read of `text`; empty: the reason against it goes to `reason`.
std::optional<KernelTimes> read(const std::string& text, std::string* reason = nullptr) {
  std::string why;
  std::optional<KernelTimes> times = parse_times(text, kMachine, why);
  EXPECT_EQ(times.has_value(), why.empty());
  if (reason != nullptr) *reason = why;
  return times;
}

std::string with(std::string text, const std::string& part, const std::string& other) {
  const size_t at = text.find(part);
  EXPECT_NE(at, text.npos);
  return text.replace(at, part.size(), other);
}

TEST(Calibration, TimesAreReadAsTheyWereWritten) {
  const KernelTimes times = some_times();
  const std::string text = print_times(times, kMachine);
  const std::optional<KernelTimes> back = read(text);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, times);
  EXPECT_EQ(print_times(*back, kMachine), text);
}

TEST(Calibration, TimesOfAnotherMachineAreNotTaken) {
  std::string reason;
  const std::string text = print_times(some_times(), "onednn-3.2/r3/avx512/t2 A processor 1.2.3");
  EXPECT_FALSE(read(text, &reason));
  EXPECT_NE(reason.find("another machine"), std::string::npos) << reason;
}

TEST(Calibration, EveryCutOfAFileIsFound) {
  const std::string text = print_times(some_times(), kMachine);
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(read(text.substr(0, size))) << text.substr(0, size);
  }
  EXPECT_FALSE(read(text + "x"));
}

TEST(Calibration, NumbersThatNoClockSaysAreRefused) {
  const std::string text = print_times(some_times(), kMachine);
  for (const char* other : {"0", "-1", "nan", "inf", "1e300", "", "0.1 2", "0x1"}) {
    EXPECT_FALSE(read(with(text, " 0.125\n", " " + std::string(other) + "\n"))) << other;
    EXPECT_FALSE(read(with(text, "copy 9.5e+09", "copy " + std::string(other)))) << other;
  }
  EXPECT_FALSE(read(with(text, "2026-05-28", "yesterday..")));
  EXPECT_FALSE(read(with(text, "call 00", "call 0")));
  EXPECT_FALSE(read(with(text, "call ", "cull ")));
  EXPECT_FALSE(read(with(text, "date ", "copy 1\ndate ")));
}

TEST(Calibration, TheMachineIsNamedWithoutTheBlocks) {
  EXPECT_EQ(times_fingerprint("reference/t1;batch<=4;block_set=1", 1, 1),
            times_fingerprint("reference/t1", 1, 1));
  EXPECT_NE(times_fingerprint("cpu/t1", 1, 1), times_fingerprint("cpu/t2", 2, 2));
  // Two parts on one thread take other times than on two.
  EXPECT_NE(times_fingerprint("cpu/t2", 2, 2), times_fingerprint("cpu/t2", 2, 1));
  EXPECT_NE(times_path("/a", "one"), times_path("/a", "two"));
}

TEST(Calibration, ThereIsAnEndToWhatIsKept) {
  backend::KeyedNumbers numbers;
  for (uint64_t key = 0; key < backend::KeyedNumbers::kMost + 10; ++key) numbers.set(key, 1);
  EXPECT_EQ(numbers.entries().size(), backend::KeyedNumbers::kMost);
  numbers.set(5, 2);
  ASSERT_NE(numbers.find(5), nullptr);
  EXPECT_EQ(*numbers.find(5), 2);
  EXPECT_EQ(numbers.find(backend::KeyedNumbers::kMost + 1), nullptr);
}

}  // namespace
}  // namespace plimsoll::planning
