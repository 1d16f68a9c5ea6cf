#include "backend/cpu/threads/threads.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "backend/cpu/threads/team.h"
#include "base/threads/denormals.h"

namespace plimsoll::backend::cpu {
namespace {

TEST(Parts, CoverEverythingOnceInOrder) {
  for (int64_t count : {0, 1, 15, 16, 17, 1000}) {
    for (int parts : {1, 2, 3, 7}) {
      int64_t next = 0;
      for (int part = 0; part < parts; ++part) {
        const Range range = part_of(count, 16, part, parts);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.begin, range.end);
        EXPECT_TRUE(range.end % 16 == 0 || range.end == count);
        next = range.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(Parts, SmallWorkIsOnePart) {
  EXPECT_EQ(parts_for(1000, 8), 1);
  EXPECT_EQ(parts_for(1 << 20, 8), 8);
}

TEST(Parts, EachRunsOnceWhateverTheTeam) {
  for (int parts : {1, 2, 5}) {
    std::vector<int> runs(static_cast<size_t>(parts), 0);
    for_each_part(parts, [&](int part) { ++runs[static_cast<size_t>(part)]; });
    for (int count : runs) EXPECT_EQ(count, 1);
  }
}

// The product of two normal numbers that is a denormal, at run time.
float denormal_product() {
  volatile float small = std::numeric_limits<float>::min();
  volatile float half = 0.5f;
  return small * half;
}

TEST(Denormals, AreZeroInEveryThreadAndOnlyInside) {
  ASSERT_GT(denormal_product(), 0.0f);
  {
    const FlushDenormals flush;
    EXPECT_EQ(denormal_product(), 0.0f);
    std::array<float, 4> products{};
    for_each_part(4, [&](int part) { products[static_cast<size_t>(part)] = denormal_product(); });
    for (float product : products) EXPECT_EQ(product, 0.0f);
    const KeepDenormals keep;
    EXPECT_GT(denormal_product(), 0.0f);
  }
  EXPECT_GT(denormal_product(), 0.0f);
}

TEST(Team, RunsManyJobsOfAnySize) {
  std::vector<int> runs(300, 0);
  for (int job = 0; job < 20000; ++job) {
    const int parts = 2 + job % 4;
    for_each_part(parts, [&](int part) { ++runs[static_cast<size_t>(job % 60 * 5 + part)]; });
  }
  int total = 0;
  for (int count : runs) total += count;
  EXPECT_EQ(total, 20000 / 4 * (2 + 3 + 4 + 5));
}

// Others have gone to sleep by the time of the second job.
TEST(Team, WakesSleepers) {
  Team team;
  for (int job = 0; job < 3; ++job) {
    std::array<std::atomic<int>, 3> runs{};
    team.run(
        3, 3,
        [](const void* body, int part) {
          auto& counts = *static_cast<std::array<std::atomic<int>, 3>*>(const_cast<void*>(body));
          ++counts[static_cast<size_t>(part)];
          // Parts that wait for each other show that three threads are at work.
          while (counts[0] + counts[1] + counts[2] < 3) std::this_thread::yield();
        },
        &runs);
    for (const auto& count : runs) EXPECT_EQ(count, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(team.thread_count(), 3u);
}

// Each part stays with its thread from job to job, where all of them are there for it.
TEST(Team, PartsStayWithTheirThread) {
  struct Job {
    std::array<std::thread::id, 3> by;
    std::atomic<int> begun = 0;
  };
  Team team;
  std::array<std::thread::id, 3> first;
  for (int i = 0; i < 200; ++i) {
    Job job;
    team.run(
        3, 3,
        [](const void* body, int part) {
          Job& mine = *static_cast<Job*>(const_cast<void*>(body));
          mine.by[static_cast<size_t>(part)] = std::this_thread::get_id();
          ++mine.begun;
          while (mine.begun < 3) std::this_thread::yield();
        },
        &job);
    if (i == 0) first = job.by;
    EXPECT_EQ(job.by, first);
  }
  EXPECT_EQ(first[0], std::this_thread::get_id());
}

// The thread sanitizer keeps a megabyte of each thread.
#if defined(__SANITIZE_THREAD__)
constexpr int kManyThreads = 70;
#else
constexpr int kManyThreads = 1100;
#endif

// More parts than fit into one round of claims; a thread is started for each of a round.
TEST(Team, RunsMorePartsThanOneRound) {
  std::vector<std::atomic<int>> runs(1100);
  Team team;
  team.run(
      static_cast<int>(runs.size()), kManyThreads,
      [](const void* body, int part) {
        auto& counts = *static_cast<std::vector<std::atomic<int>>*>(const_cast<void*>(body));
        ++counts[static_cast<size_t>(part)];
      },
      &runs);
  for (const auto& count : runs) EXPECT_EQ(count, 1);
}

// Fewer threads than parts: each part runs once, and no thread is started for it.
TEST(Team, FewerThreadsThanParts) {
  Team team;
  std::array<std::atomic<int>, 70> runs{};
  for (const int threads : {1, 2, 3, 2, 1}) {
    for (auto& count : runs) count = 0;
    team.run(
        static_cast<int>(runs.size()), threads,
        [](const void* body, int part) {
          auto& counts = *static_cast<std::array<std::atomic<int>, 70>*>(const_cast<void*>(body));
          ++counts[static_cast<size_t>(part)];
        },
        &runs);
    for (const auto& count : runs) EXPECT_EQ(count, 1);
  }
  EXPECT_EQ(team.thread_count(), 3u);
}

// How many threads run these parts, each of which leaves the others time to come.
size_t threads_of(int parts) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  for_each_part(parts, [&](int) {
    {
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  return seen.size();
}

// A limit holds in its scope, for the host thread that set it.
TEST(Parts, RunOnNoMoreThreadsThanTheLimit) {
  {
    const ThreadLimit two(2);
    EXPECT_LE(threads_of(6), 2u);
    {
      const ThreadLimit one(1);
      EXPECT_EQ(threads_of(6), 1u);
    }
    EXPECT_LE(threads_of(6), 2u);
  }
  std::atomic<int> met = 0;
  for_each_part(3, [&](int) {
    ++met;
    while (met < 3) std::this_thread::yield();  // a thread for each is there again
  });
  EXPECT_EQ(met, 3);
}

TEST(Team, HostThreadsHaveOneEach) {
  std::array<std::array<int, 2>, 3> runs{};
  std::vector<std::thread> hosts;
  for (auto& mine : runs) {
    hosts.emplace_back([&mine] {
      for (int job = 0; job < 1000; ++job) {
        for_each_part(2, [&](int part) { ++mine[static_cast<size_t>(part)]; });
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  for (const auto& mine : runs) EXPECT_EQ(mine, (std::array<int, 2>{1000, 1000}));
}

TEST(Team, PartsThatAskForPartsGetThemInOrder) {
  std::array<std::vector<int>, 2> order;
  for_each_part(2, [&](int part) {
    for_each_part(3, [&](int inner) { order[static_cast<size_t>(part)].push_back(inner); });
  });
  for (const auto& mine : order) EXPECT_EQ(mine, (std::vector<int>{0, 1, 2}));
}

}  // namespace
}  // namespace plimsoll::backend::cpu
