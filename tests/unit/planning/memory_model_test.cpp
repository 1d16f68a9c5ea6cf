// Process memory of arenas.

#include "planning/memory_model.h"

#include <gtest/gtest.h>

namespace plimsoll::planning {
namespace {

TEST(MemoryModel, BelowWhatStartingTakesTheFasterPlanCounts) {
  ProcessOverhead overhead;
  overhead.engine = 10_MiB;
  overhead.start_up = 20_MiB;
  const std::vector<plan::FrontierPoint> processes = process_frontier(
      overhead, {{1_MiB, 4.0, "a"}, {2_MiB, 3.0, "b"}, {15_MiB, 2.0, "c"}, {30_MiB, 1.0, "d"}});
  ASSERT_EQ(processes.size(), 3u);
  EXPECT_EQ(processes[0], (plan::FrontierPoint{20_MiB, 3.0, "b"}));
  EXPECT_EQ(processes[1], (plan::FrontierPoint{25_MiB + page_tables_of(15_MiB), 2.0, "c"}));
  EXPECT_EQ(processes[2].what, "d");
  EXPECT_TRUE(process_frontier(overhead, {}).empty());
}

}  // namespace
}  // namespace plimsoll::planning
