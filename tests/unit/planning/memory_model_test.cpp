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

// The last clones may need one page of tables more than the arena by itself.
TEST(MemoryModel, ClonesAreOneSizeForSearchAndRun) {
  ProcessOverhead overhead;
  overhead.engine = 10_MiB;
  for (Bytes arena = 1_MiB; arena < 5_MiB; arena += Bytes(50'001)) {
    for (const Bytes clones : {0_KiB, 8_KiB, 100_KiB, 3_MiB}) {
      const ProcessOverhead with = with_clones(overhead, arena, arena + clones);
      const Bytes limit = process_bytes(with, arena);
      EXPECT_EQ(limit, process_bytes(overhead, arena + clones)) << to_string(arena);
      EXPECT_GE(arena_within(overhead, limit), arena + clones) << to_string(arena);
    }
  }
}

}  // namespace
}  // namespace plimsoll::planning
