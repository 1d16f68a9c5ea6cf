// The state that ranks hold in parts, read as one by the first of them.

#include "train/shared_state.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "toys/thread_ranks.h"

namespace plimsoll::train {
namespace {

constexpr int64_t kElements = 50'001;  // two ranks hold 25 001 and 25 000: four messages each
constexpr int64_t kEach = 25'001;

const std::vector<ops::ShardedState>& sharded() {
  static const std::vector<ops::ShardedState> states = {
      {"slot", {DType::kFloat32, fixed_shape(std::vector<int64_t>{kElements})}}};
  return states;
}

// One rank's part, which counts on from its first element.
class Part final : public TensorSource {
 public:
  // Bytes from `broken` on cannot be read.
  explicit Part(int rank, int64_t broken = kEach * 4)
      : values_(kEach), broken_(broken), infos_{{"slot", DType::kFloat32, {kEach}}} {
    std::iota(values_.begin(), values_.end(), static_cast<float>(rank * kEach));
  }
  std::span<const TensorInfo> tensors() const override { return infos_; }
  void read(size_t, int64_t byte_begin, std::span<std::byte> destination) override {
    if (byte_begin + std::ssize(destination) > broken_) {
      throw Error(ErrorKind::kIo, "spill: expected to read");
    }
    std::memcpy(destination.data(), std::as_bytes(std::span(values_)).data() + byte_begin,
                destination.size());
  }

 private:
  std::vector<float> values_;
  int64_t broken_;
  std::vector<TensorInfo> infos_;
};

using Use = std::function<void(TensorSource&, Ranks&)>;

// What the first of two ranks does with the state of both; what it threw, and the other one.
struct Thrown {
  std::string first;
  std::string second;
};
Thrown on_two_ranks(const Part& second, const Use& use,
                    const std::function<void(Ranks&)>& afterwards) {
  toys::ThreadMeeting meeting;
  Thrown thrown;
  const auto run = [&](int rank, const Part& part, std::string& what) {
    toys::ThreadRanks ranks(meeting, rank, 2);
    try {
      with_whole_state({[&] { return std::make_unique<Part>(part); }, sharded(), &ranks}, rank == 0,
                       [&](TensorSource& whole) { use(whole, ranks); });
    } catch (const Error& error) {
      what = std::string(to_string(error.kind())) + ": " + error.message();
    }
    afterwards(ranks);
  };
  const Part own(0);
  std::thread other(run, 1, std::cref(second), std::ref(thrown.second));
  run(0, own, thrown.first);
  other.join();
  return thrown;
}

// They go on together.
void expect_in_step(Ranks& ranks) {
  EXPECT_TRUE(any_rank(ranks, ranks.rank() == 1));
  EXPECT_NO_THROW(ranks.check());
}

void read_all(TensorSource& whole, std::vector<float>& values) {
  values.assign(kElements, -1);
  whole.read(0, 0, std::as_writable_bytes(std::span(values)));
}

TEST(SharedState, IsReadAsOne) {
  const Part second(1);
  std::vector<float> values;
  const Thrown thrown = on_two_ranks(
      second, [&](TensorSource& whole, Ranks&) { read_all(whole, values); }, expect_in_step);
  EXPECT_EQ(thrown.first + thrown.second, "");
  std::vector<float> expected(kElements);
  std::iota(expected.begin(), expected.end(), 0.0f);
  EXPECT_EQ(values, expected);
}

// The first piece, one in the middle, and the last one, after which nothing more is asked.
TEST(SharedState, WhatARankCannotReadFailsOnTheFirst) {
  for (const int64_t broken : {int64_t{0}, int64_t{40'000}, kEach * 4 - 8}) {
    const Part second(1, broken);
    std::vector<float> values;
    const Thrown thrown = on_two_ranks(
        second, [&](TensorSource& whole, Ranks&) { read_all(whole, values); }, expect_in_step);
    EXPECT_EQ(thrown.first, "io: rank 1: spill: expected to read");
    EXPECT_EQ(thrown.second, "");
  }
}

TEST(SharedState, OtherBytesThanARequestAreRefused) {
  using Numbers = std::array<int64_t, 3>;
  for (const Numbers& request : {Numbers{1, 0, 4}, Numbers{0, -4, 4}, Numbers{0, 0, kEach * 4 + 4},
                                 Numbers{0, 4, kEach * 4}, Numbers{0, int64_t{1} << 62, 4}}) {
    const Part second(1);
    const Thrown thrown = on_two_ranks(
        second,
        [&](TensorSource&, Ranks& ranks) { ranks.swap(1, std::as_bytes(std::span(request)), {}); },
        [](Ranks& ranks) {
          Numbers end{};  // which the first one says to all
          if (ranks.rank() == 1) ranks.swap(0, {}, std::as_writable_bytes(std::span(end)));
        });
    EXPECT_NE(thrown.second.find("expected to be asked for part of the state"), std::string::npos);
  }
}

}  // namespace
}  // namespace plimsoll::train
