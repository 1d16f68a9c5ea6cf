// Copies of one large array are found by their content, and nothing else is.

#include "watch/measure/copies.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace plimsoll::watch {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kArray = 80 * kMiB + 4096;  // what malloc maps for 80 MiB

enum class Content { kEmpty, kDoubles, kFloats, kConstant };

// An address space whose bytes are made when they are read.
class FakeProcess {
 public:
  // A mapping at `begin` with an array of `seed` at `begin + shift`; `filled` of its bytes are
  // there.
  void map(uint64_t begin, uint64_t extent, Content content, uint64_t shift = 16,
           uint64_t filled = ~uint64_t{0}, int seed = 1, uint64_t period = 0) {
    parts_.push_back({begin, extent, shift, filled, seed, content, period});
  }
  void unmap(uint64_t begin) {
    std::erase_if(parts_, [&](const Part& part) { return part.begin == begin; });
  }

  void look(CopyFinder& finder, double seconds = 1) {
    std::sort(parts_.begin(), parts_.end(),
              [](const Part& a, const Part& b) { return a.begin < b.begin; });
    finder.line("400000-500000 r-xp 00000000 08:01 11    /usr/bin/python3");
    for (const Part& part : parts_) {
      char text[128];
      std::snprintf(text, sizeof text, "%lx-%lx rw-p 00000000 00:00 0", part.begin,
                    part.begin + part.extent);
      finder.line(text);
    }
    finder.look(
        [this](uint64_t address, void* into, size_t bytes) {
          size_t done = 0;
          while (done < bytes) {
            const size_t got = read(address + done, static_cast<char*>(into) + done, bytes - done);
            if (got == 0) break;
            done += got;
          }
          return done;
        },
        seconds);
  }

 private:
  struct Part {
    uint64_t begin, extent, shift, filled;
    int seed;
    Content content;
    uint64_t period;  // bytes after which the numbers begin anew; 0: never, and an array ends
  };

  // Up to the end of the part that holds `address`, at most up to the array in it.
  size_t read(uint64_t address, char* out, size_t bytes) const {
    for (const Part& part : parts_) {
      if (address < part.begin || address >= part.begin + part.extent) continue;
      const uint64_t at = address - part.begin;
      uint64_t count = std::min<uint64_t>(bytes, part.extent - at);
      if (at < part.shift) count = std::min(count, part.shift - at);
      const char filler = part.content == Content::kConstant ? 7 : 0;
      std::fill_n(out, count, filler);
      if (at >= part.shift) fill(part, at - part.shift, out, count);
      return count;
    }
    return 0;
  }

  static void fill(const Part& part, uint64_t at, char* out, uint64_t count) {
    const bool floats = part.content == Content::kFloats;
    if (part.content != Content::kDoubles && !floats) return;
    const uint64_t size = floats ? 4 : 8;
    const uint64_t whole = part.period > 0 ? ~uint64_t{0} : (floats ? 40 : 80) * kMiB;
    const uint64_t end = std::min(part.filled, whole);
    for (uint64_t i = 0; i < count && at + i < end;) {
      const uint64_t index = (part.period > 0 ? (at + i) % part.period : at + i) / size;
      const uint64_t mixed = (index + 1) * 0x9e3779b97f4a7c15u * static_cast<uint64_t>(part.seed);
      const double value = static_cast<double>(mixed >> 11) * 0x1.0p-53;
      const auto narrow = static_cast<float>(value);
      char bytes[8] = {};
      std::memcpy(bytes, floats ? static_cast<const void*>(&narrow) : &value, size);
      for (uint64_t k = (at + i) % size; k < size && i < count; ++k, ++i) out[i] = bytes[k];
    }
  }

  std::vector<Part> parts_;
};

constexpr uint64_t kFirst = 0x7f3300000000;
constexpr uint64_t kSecond = 0x7f3200000000;
constexpr uint64_t kThird = 0x7f3100000000;

TEST(Copies, AreCountedWhileTheyLive) {
  FakeProcess process;
  CopyFinder finder;
  process.map(kFirst, kArray, Content::kDoubles);
  process.look(finder, 1);
  EXPECT_EQ(finder.found().times(), 0);
  process.map(kSecond, kArray, Content::kDoubles, 64);
  process.look(finder, 2);
  EXPECT_EQ(finder.found(), (DataCopies{kArray, 2, 0, 0, 1.0, 2.0}));
  // The temporary goes; a pool that doubles its regions takes a copy, in front of older regions.
  process.unmap(kSecond);
  process.map(kThird, 128 * kMiB, Content::kDoubles, 0);
  process.look(finder, 3);
  EXPECT_EQ(finder.found().times(), 2);
  process.map(kThird - 128 * kMiB, 128 * kMiB, Content::kDoubles, 0);
  process.look(finder, 4);
  EXPECT_EQ(finder.found(), (DataCopies{kArray, 3, 0, 0, 1.0, 4.0}));
  EXPECT_EQ(finder.found().total_bytes(), 3 * static_cast<int64_t>(kArray));
}

TEST(Copies, AreFoundWhereTheFirstWasMappedTogetherWithSmallThings) {
  FakeProcess process;
  CopyFinder finder;
  process.map(kFirst, kArray + kMiB, Content::kDoubles, kMiB + 16);
  process.map(kSecond, kArray, Content::kDoubles);
  process.look(finder);
  EXPECT_EQ(finder.found().equal, 2);
  process.unmap(kFirst);
  process.map(kThird, 128 * kMiB, Content::kDoubles, 0);
  process.map(kThird - 128 * kMiB, 128 * kMiB, Content::kDoubles, 0);
  process.look(finder);
  EXPECT_EQ(finder.found().equal, 3);
}

// A thread's stack is mapped right below one array, small things right above the other.
// A busy machine: the array and its copies came between two looks, and are mapped as one.
TEST(Copies, AreFoundInOneBlock) {
  for (uint64_t copies : {2, 3, 4}) {
    for (uint64_t beside : {uint64_t{0}, kMiB}) {
      FakeProcess process;
      CopyFinder finder;
      for (uint64_t i = 0; i < copies; ++i) {
        process.map(kFirst + i * kArray, kArray, Content::kDoubles, i == 0 ? 16 : 64);
      }
      if (beside > 0) process.map(kFirst - beside, beside, Content::kEmpty);
      process.look(finder, 3);
      EXPECT_EQ(finder.found().times(), static_cast<int64_t>(copies)) << beside;
      EXPECT_NEAR(static_cast<double>(finder.found().array_bytes), kArray, 0.02 * kArray);
      process.map(kSecond, kArray, Content::kDoubles, 64);
      process.look(finder, 4);
      EXPECT_EQ(finder.found().times(), static_cast<int64_t>(copies) + 1) << beside;
    }
  }
}

// An array that repeats itself, as one image many times.
TEST(Copies, AreNotClaimedOfAnArrayThatRepeatsItself) {
  for (uint64_t period : {8 * 1000, 80 * 1024, 1 << 20}) {
    FakeProcess process;
    CopyFinder finder;
    process.map(kFirst, 3 * kArray, Content::kDoubles, 16, ~uint64_t{0}, 1, period);
    process.look(finder, 3);
    EXPECT_EQ(finder.found().times(), 0) << period;
  }
}

TEST(Copies, AreFoundWhereStacksAreMappedBesideThem) {
  for (const uint64_t below : {uint64_t{0}, 3 * kMiB, 8 * kMiB + 4096, 11 * kMiB}) {
    for (const uint64_t above : {uint64_t{0}, 300 * uint64_t{1024}, 9 * kMiB}) {
      FakeProcess process;
      CopyFinder finder;
      process.map(kFirst, kArray + below, Content::kDoubles, below + 16);
      process.map(kSecond, kArray + above, Content::kDoubles, 64);
      process.look(finder);
      EXPECT_EQ(finder.found().equal, 2) << below << " below, " << above << " above";
    }
  }
}

TEST(Copies, InHalfTheSizeAreFound) {
  FakeProcess process;
  CopyFinder finder;
  process.map(kFirst, kArray, Content::kDoubles);
  process.look(finder);
  process.map(kSecond, 40 * kMiB + 4096, Content::kFloats);
  process.map(kThird, 64 * kMiB, Content::kFloats, 0);
  process.look(finder);
  EXPECT_EQ(finder.found().equal, 1);
  EXPECT_EQ(finder.found().halved, 2);
  EXPECT_EQ(finder.found().total_bytes(), 2 * static_cast<int64_t>(kArray));
}

TEST(Copies, AreOnesOnlyWhenTheyAreComplete) {
  FakeProcess process;
  CopyFinder finder;
  process.map(kFirst, kArray, Content::kDoubles);
  process.map(kSecond, kArray, Content::kDoubles, 16, 70 * kMiB);
  process.look(finder);
  EXPECT_EQ(finder.found().times(), 0);
  process.unmap(kSecond);
  process.map(kSecond, kArray, Content::kDoubles);
  process.look(finder);
  EXPECT_EQ(finder.found().times(), 2);
}

TEST(Copies, AreNoLongerOnesWhenTheirPlaceIsUsedAnew) {
  FakeProcess process;
  CopyFinder finder;
  process.map(kFirst, kArray, Content::kDoubles);
  process.map(kSecond, kArray, Content::kDoubles);
  process.look(finder);
  process.unmap(kSecond);
  process.map(kSecond, kArray, Content::kDoubles, 16, ~uint64_t{0}, 3);
  process.map(kThird, kArray, Content::kDoubles);
  process.look(finder);
  EXPECT_EQ(finder.found().times(), 2);
}

TEST(Copies, AreNotClaimedOfArraysThatAreAlikeInSizeOnly) {
  for (const Content content : {Content::kEmpty, Content::kConstant, Content::kDoubles}) {
    FakeProcess process;
    CopyFinder finder;
    process.map(kFirst, kArray, content, 16, ~uint64_t{0}, 1);
    process.map(kSecond, kArray, content, 16, ~uint64_t{0}, 5);
    process.map(kThird, 40 * kMiB + 4096, Content::kFloats, 16, ~uint64_t{0}, 7);
    process.look(finder);
    process.look(finder);
    EXPECT_EQ(finder.found().times(), 0);
  }
}

TEST(Copies, OfSmallArraysAreNotLookedFor) {
  FakeProcess process;
  CopyFinder finder;
  process.map(kFirst, 33 * kMiB, Content::kDoubles);
  process.map(kSecond, 33 * kMiB, Content::kDoubles);
  process.look(finder);
  EXPECT_EQ(finder.found().times(), 0);
}

std::vector<Sample> samples_at(const std::vector<int64_t>& held_mib) {
  std::vector<Sample> samples;
  for (size_t i = 0; i < held_mib.size(); ++i) {
    Sample sample;
    sample.seconds = static_cast<double>(i);
    sample.held = sample.held_low = held_mib[i] << 20;
    samples.push_back(sample);
  }
  return samples;
}

TEST(Copies, ThatWereNotComparedCountByTheRiseOfTheMemory) {
  const DataCopies compared{int64_t{800} << 20, 2, 0, 0, 3.0, 6.0, 1.0};
  const auto alike = [&](const std::vector<int64_t>& held_mib) {
    DataCopies copies = compared;
    add_alike(copies, samples_at(held_mib));
    return copies.alike;
  };
  EXPECT_EQ(alike({100, 240, 250, 700, 1050, 1860, 1900, 2680, 2650}), 1);
  EXPECT_EQ(alike({100, 240, 250, 700, 1050, 1860, 1900, 1880}), 0);
  // What the program loaded before the array is not the array's.
  EXPECT_EQ(alike({20, 240, 250, 700, 1050, 1860, 1900, 2680, 2650}), 1);
  EXPECT_EQ(alike({20, 20, 20, 700, 1050, 1860, 1900, 2700, 2700}), 1);
  // Half an array more is something else.
  EXPECT_EQ(alike({100, 240, 250, 700, 1050, 1860, 2300, 2250}), 0);
  // So is what lies far beyond: a large model.
  EXPECT_EQ(alike({100, 240, 250, 700, 1050, 1860, 8700, 8700}), 0);
  // A busy machine: one sample for all that lies between the two looks, and later than both.
  std::vector<Sample> late = samples_at({20, 240, 2650, 2680});
  late[1].seconds = 3.5;
  late[1].held = int64_t{1050} << 20;
  late[2].seconds = 7;
  late[3].seconds = 9;
  DataCopies busy = compared;
  add_alike(busy, late);
  EXPECT_EQ(busy.alike, 1);
  DataCopies none;
  add_alike(none, samples_at({100, 3000}));
  EXPECT_EQ(none.alike, 0);
}

TEST(Copies, ThatCameWhileMemoryGrewWereLoadedOrLeaked) {
  const DataCopies found{int64_t{800} << 20, 3, 0, 0, 3.0, 6.0, 1.0};
  Growth rising;
  rising.form = CurveForm::kGrowth;
  rising.bytes_per_minute = 1e9;
  const auto told = [&](const std::vector<int64_t>& held_mib, DataCopies copies, Growth growth) {
    tell_loading_from_leaks(samples_at(held_mib), copies, growth);
    return std::pair(copies.times(), growth.form);
  };
  // Loaded to the end of the run.
  EXPECT_EQ(told({20, 100, 240, 700, 1600, 2300, 2650, 2700}, found, rising),
            std::pair(int64_t{3}, CurveForm::kTooShort));
  // Memory goes on rising after them: something is kept.
  EXPECT_EQ(told({20, 100, 240, 700, 1600, 2300, 2650, 3000, 3600, 4200}, found, rising),
            std::pair(int64_t{0}, CurveForm::kGrowth));
  // One that was not compared came last.
  DataCopies alike = found;
  alike.equal = 2;
  alike.alike = 1;
  EXPECT_EQ(told({20, 100, 240, 700, 1000, 1500, 1600, 2000, 2600, 2640}, alike, rising),
            std::pair(int64_t{3}, CurveForm::kTooShort));
  // Many are a loop's.
  DataCopies many = found;
  many.equal = 9;
  EXPECT_EQ(told({20, 100, 240, 700, 1600, 2300, 7100, 7200}, many, rising),
            std::pair(int64_t{0}, CurveForm::kGrowth));
  // Steps were counted while memory rose.
  Growth counted = rising;
  counted.bytes_per_step = 1e6;
  EXPECT_EQ(told({20, 100, 240, 700, 1600, 2300, 2650, 2700}, found, counted),
            std::pair(int64_t{0}, CurveForm::kGrowth));
  Growth still;
  still.form = CurveForm::kPlateau;
  EXPECT_EQ(told({20, 100, 240, 700, 1600, 2300, 2650, 2700}, found, still),
            std::pair(int64_t{3}, CurveForm::kPlateau));
}

TEST(Copies, AreDescribedInWords) {
  const DataCopies copies{800'000'000, 1, 2, 0, 0.5, 3.5};
  EXPECT_EQ(describe(copies, 2'000'000'000),
            "the same data are held 3 times: 1 x 763 MiB and 2 x 381 MiB as float32 of the "
            "float64, 1.49 GiB where the peak is 1.86 GiB");
  EXPECT_TRUE(dominate(copies, 2'000'000'000));
  EXPECT_FALSE(dominate(copies, 4'000'000'000));
  EXPECT_FALSE(dominate(DataCopies(), 100));
}

}  // namespace
}  // namespace plimsoll::watch
