// What calls wait for memory, by hand: which values are far is what each plan says.

#include "plan/facts/traffic.h"

#include <gtest/gtest.h>

#include <string>

#include "toys/toy_plans.h"

namespace plimsoll::plan {
namespace {

constexpr std::string_view kMaps = R"(
program predict batch 8
input %x float32 (B, 64)
state %w float32 (64, 64) weight trainable layer=dense
node a scale (%x) -> (%a float32 (B, 64)) {factor=0.5} layer=relu forward
node b lines (%a, %w) -> (%b float32 (B, 64)) {} layer=dense forward
node c scale (%b) -> (%c float32 (B, 64)) {factor=2.0} forward
output %c
)";

// A row is 256 bytes, a value of all rows 2 KiB, the weight 16 KiB.
constexpr std::string_view kInstances = R"(program predict batch=8
instance %0 x
instance %1 a
instance %2 w
instance %3 b
instance %4 c
)";

constexpr std::string_view kApart = R"(loop L0 batch extent=8 slice=1
  feed %0
  call a (%0) -> (%1)
end
loop L1 batch extent=8 slice=1
  call b (%1 %2) -> (%3)
  call c (%3) -> (%4)
  output %4
end
)";

constexpr std::string_view kTogether = R"(loop L0 batch extent=8 slice=1
  feed %0
  call a (%0) -> (%1)
  call b (%1 %2) -> (%3)
  call c (%3) -> (%4)
  output %4
end
)";

class CachedCatalog : public toys::ToyCatalog {
 public:
  explicit CachedCatalog(Bytes cached) : cached_(cached) {}
  Bytes cached() const override { return cached_; }
  double memory_seconds(Bytes bytes) const override { return static_cast<double>(bytes.count()); }

 private:
  Bytes cached_;
};

std::string plan_of(std::string_view loops) {
  return std::string(kInstances) + std::string(loops.substr(loops.find("loop")));
}

std::vector<double> traffic_of(std::string_view loops, Bytes cached, Bytes arena) {
  const CachedCatalog catalog(cached);
  const graph::ProgramSet programs = toys::parse_programs(kMaps);
  const Plan plan = toys::parse_plan(plan_of(loops), programs, catalog);
  const ProgramFacts facts(programs.programs.front(), catalog);
  return estimate_traffic(plan.programs.front(), arena, facts);
}

constexpr double kAllRows = 2048;
constexpr double kWeight = 64 * 64 * 4;

TEST(Traffic, AValueBetweenLoopsGoesToMemoryAndComesBack) {
  // Items: L0, feed, a, end, L1, b, c, output, end. Of 20 KiB neither the weight nor what was there
  // before is in the caches when it is wanted; of an iteration all is.
  const std::vector<double> apart = traffic_of(kApart, 18_KiB, 20_KiB);
  ASSERT_EQ(apart.size(), 9u);
  EXPECT_EQ(apart[1], 0);             // written anew in every iteration
  EXPECT_EQ(apart[2], 2 * kAllRows);  // read to be overwritten, and written at last
  EXPECT_EQ(apart[5], 0);             // %1 is two KiB ago, the weight an iteration
  EXPECT_EQ(apart[6], 0);
  // With less room %1 has gone to memory and comes from there, and so does the weight, each time.
  const std::vector<double> small = traffic_of(kApart, 2_KiB, 20_KiB);
  EXPECT_EQ(small[2], 2 * kAllRows);
  EXPECT_EQ(small[5], 2 * kAllRows + 8 * kWeight + 2 * kAllRows);
}

TEST(Traffic, OfOneLoopNothingButItsWeightIsFar) {
  const std::vector<double> near = traffic_of(kTogether, 18_KiB, 20_KiB);
  EXPECT_EQ(near, std::vector<double>(near.size(), 0));
  const std::vector<double> far = traffic_of(kTogether, 16_KiB, 20_KiB);
  ASSERT_EQ(far.size(), 7u);
  EXPECT_GE(far[3], 8 * kWeight);
}

TEST(Traffic, WhereNobodyKnowsOfCachesThereIsNone) {
  EXPECT_TRUE(traffic_of(kApart, Bytes(), 20_KiB).empty());
}

// The items' seconds where each works for 10.
std::vector<double> seconds_of(std::string_view text) {
  const CachedCatalog catalog(18_KiB);
  const graph::ProgramSet programs = toys::parse_programs(text);
  const Plan plan = toys::parse_plan(plan_of(kApart), programs, catalog);
  const ProgramFacts facts(programs.programs.front(), catalog);
  std::vector<double> seconds(9, 10.0);
  wait_for_memory(plan.programs.front(), 20_KiB, facts, seconds);
  return seconds;
}

TEST(Traffic, AnItemTakesItsWorkOrItsTraffic) {
  EXPECT_EQ(seconds_of(kMaps), (std::vector<double>{10, 10, 2 * kAllRows, 10, 10, 10, 10, 10, 10}));
}

TEST(Traffic, AConvolutionTakesBoth) {
  std::string text(kMaps);
  const std::string_view map = "scale (%x) -> (%a float32 (B, 64)) {factor=0.5}";
  text.replace(text.find(map), map.size(), "smooth (%x) -> (%a float32 (B, 64)) {}");
  EXPECT_EQ(seconds_of(text),
            (std::vector<double>{10, 10, 10 + 2 * kAllRows, 10, 10, 10, 10, 10, 10}));
}

}  // namespace
}  // namespace plimsoll::plan
