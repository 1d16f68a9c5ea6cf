#include "train/limit_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace plimsoll::train {
namespace {

struct World {
  double now = 0;
  std::optional<Bytes> group = 1024_MiB;
  std::optional<Bytes> safe = std::nullopt;
  int reads = 0;
  LimitWatch watch{[this] { return now; },
                   [this] {
                     ++reads;
                     return LimitWatch::Reading{group, safe};
                   }};
};

void send(int value) {
  const sigval queued{.sival_int = value};
  ASSERT_EQ(::sigqueue(::getpid(), SIGUSR1, queued), 0);
}

TEST(LimitWatch, TellsOnceOfAGroupBelowThePlan) {
  World world;
  EXPECT_EQ(world.watch.poll(100_MiB), std::nullopt);
  EXPECT_EQ(world.reads, 0) << "not before a second has passed";
  world.now = 1.5;
  EXPECT_EQ(world.watch.poll(100_MiB), std::nullopt);
  EXPECT_EQ(world.reads, 1);
  world.group = 100_MiB - 480_B;
  world.now = 2.75;
  EXPECT_EQ(world.watch.poll(100_MiB), std::nullopt) << "the same, in whole pages";
  world.group = 99_MiB;
  EXPECT_EQ(world.watch.poll(100_MiB), std::nullopt);
  world.now = 4;
  EXPECT_EQ(world.watch.poll(100_MiB), 99_MiB);
  world.now = 5.5;
  EXPECT_EQ(world.watch.poll(100_MiB), std::nullopt) << "no plan was found: not asked again";
  world.group = 80_MiB;
  world.now = 7;
  EXPECT_EQ(world.watch.poll(100_MiB), 80_MiB);
  world.group = std::nullopt;
  world.now = 9;
  EXPECT_EQ(world.watch.poll(100_MiB), std::nullopt);
}

TEST(LimitWatch, TellsOfPressureOnceInAWhile) {
  World world;
  world.now = 1.5;
  world.safe = 200_MiB;
  EXPECT_EQ(world.watch.poll(100_MiB), std::nullopt) << "not this run's doing";
  world.safe = 90_MiB;
  world.now = 3;
  EXPECT_EQ(world.watch.poll(100_MiB), 90_MiB);
  world.safe = 70_MiB;
  world.now = 20;
  EXPECT_EQ(world.watch.poll(90_MiB), std::nullopt) << "what was told takes a while to work";
  world.now = 40;
  EXPECT_EQ(world.watch.poll(90_MiB), 70_MiB);
  world.safe = 68_MiB;
  world.now = 80;
  EXPECT_EQ(world.watch.poll(90_MiB), std::nullopt) << "no plan was found for about as much";
  world.group = 60_MiB;
  world.now = 82;
  EXPECT_EQ(world.watch.poll(70_MiB), 60_MiB) << "a limit is told at once";
}

TEST(LimitWatch, ASignalBringsALimitOrAsksTheGroup) {
  World world;
  send(256);
  EXPECT_EQ(world.watch.poll(100_MiB), 256_MiB) << "a higher one too";
  EXPECT_EQ(world.watch.poll(100_MiB), std::nullopt);
  ASSERT_EQ(::raise(SIGUSR1), 0);
  EXPECT_EQ(world.watch.poll(100_MiB), 1024_MiB);
  EXPECT_EQ(world.watch.poll(100_MiB), std::nullopt);
  send(-5);
  EXPECT_EQ(world.watch.poll(100_MiB), 1024_MiB);
}

volatile std::sig_atomic_t others = 0;

TEST(LimitWatch, GivesTheSignalBack) {
  std::signal(SIGUSR1, [](int) { others = others + 1; });
  { const World world; }
  ASSERT_EQ(::raise(SIGUSR1), 0);
  EXPECT_EQ(others, 1);
  std::signal(SIGUSR1, SIG_DFL);
}

}  // namespace
}  // namespace plimsoll::train
