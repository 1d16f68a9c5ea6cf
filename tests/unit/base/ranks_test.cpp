#include "base/ranks.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "toys/thread_ranks.h"

namespace plimsoll {
namespace {

using namespace std::chrono_literals;

constexpr int kTimes = 20;
constexpr size_t kCount = 10'000;

// The product of two normal numbers that is a denormal, at run time.
float denormal_product() {
  volatile float small = std::numeric_limits<float>::min();
  volatile float half = 0.5F;
  return small * half;
}

// Adds what the other one of two ranks has, time after time.
class Adding final : public Swaps {
 public:
  explicit Adding(int rank) : rank_(rank), own_(kCount, static_cast<float>(rank + 1)) {}

  std::optional<Swap> next() noexcept override {
    if (times_ > 0) {
      denormal_ = denormal_ + denormal_product();
      for (size_t i = 0; i < kCount; ++i) own_[i] += others_[i];
    }
    if (++times_ > kTimes) return std::nullopt;
    sent_ = own_;
    return Swap{1 - rank_, std::as_bytes(std::span(sent_)),
                std::as_writable_bytes(std::span(others_))};
  }

  const std::vector<float>& sums() const { return own_; }
  float denormal() const { return denormal_; }

 private:
  int rank_;
  int times_ = 0;
  float denormal_ = 0;
  std::vector<float> own_;
  std::vector<float> sent_;
  std::vector<float> others_ = std::vector<float>(kCount);
};

struct Outcome {
  std::vector<float> sums;
  float denormal = 0;
  bool open = false;  // when the caller asked for it
};

// What each of two ranks has when it has begun, `meanwhile` is over, and it waits for the rest.
template <typename Meanwhile>
std::array<Outcome, 2> add_beside(bool helped, const Meanwhile& meanwhile) {
  toys::ThreadMeeting meeting;
  std::array<Outcome, 2> outcomes;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      toys::ThreadRanks ranks(meeting, rank, 2);
      if (helped) ranks.start_helper();
      Outcome& outcome = outcomes[static_cast<size_t>(rank)];
      for (int again = 0; again < 3; ++again) {
        Adding adding(rank);
        const uint32_t number = ranks.begin(adding);
        meanwhile(ranks);
        outcome.open = ranks.is_under_way();
        ranks.finish(number);
        EXPECT_FALSE(ranks.is_under_way());
        outcome.sums = adding.sums();
        outcome.denormal = adding.denormal();
      }
      EXPECT_EQ(ranks.sent().messages, 3 * kTimes);
      ranks.check();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

void expect_sums(const std::array<Outcome, 2>& outcomes) {
  // 1 + 2, doubled each time after the first.
  const float expected = 3.0F * static_cast<float>(1 << (kTimes - 1));
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.sums, std::vector<float>(kCount, expected));
  }
}

TEST(RanksHelper, WhatIsBegunComesWithoutTheCaller) {
  const auto outcomes = add_beside(true, [](const Ranks& ranks) {
    for (int i = 0; i < 10'000 && ranks.is_under_way(); ++i) std::this_thread::sleep_for(1ms);
  });
  expect_sums(outcomes);
  for (const Outcome& outcome : outcomes) {
    EXPECT_FALSE(outcome.open);
    EXPECT_EQ(outcome.denormal, 0.0F);  // as in kernels
  }
}

TEST(RanksHelper, ACallerMayLookAndWaitBesideIt) {
  expect_sums(add_beside(true, [](Ranks&) {}));
  expect_sums(add_beside(true, [](Ranks& ranks) {
    for (int i = 0; i < 200; ++i) ranks.go_on();
  }));
}

TEST(RanksHelper, WithoutItNothingComesUntilSomebodyAsks) {
  const auto outcomes = add_beside(false, [](Ranks&) { std::this_thread::sleep_for(20ms); });
  expect_sums(outcomes);
  for (const Outcome& outcome : outcomes) EXPECT_TRUE(outcome.open);
}

TEST(RanksHelper, NobodyTouchesWhatWasAbandoned) {
  toys::ThreadMeeting meeting;
  toys::ThreadRanks ranks(meeting, 0, 2);
  ranks.start_helper();
  auto adding = std::make_unique<Adding>(0);  // the other rank never answers
  ranks.begin(*adding);
  std::this_thread::sleep_for(2ms);
  ranks.abandon();
  adding.reset();
  EXPECT_FALSE(ranks.is_under_way());
  std::array<std::byte, 4> room{};
  ranks.swap(1, {}, room);
  EXPECT_THROW(ranks.check(), Error);
}

}  // namespace
}  // namespace plimsoll
