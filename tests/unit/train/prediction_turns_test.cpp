// Predictions of ranks that take batches by turns reach the first one, whole and in order.

#include "train/prediction_turns.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "toys/thread_ranks.h"

namespace plimsoll::train {
namespace {

constexpr int64_t kBatch = 5;

// A row of output o is its own number, as many times as o has bytes.
std::vector<unsigned char> row_of(int64_t row, int64_t bytes) {
  return std::vector<unsigned char>(static_cast<size_t>(bytes), static_cast<unsigned char>(row));
}

// What comes has to be all rows of each output, one after another.
class InOrder final : public OutputSink {
 public:
  explicit InOrder(std::vector<Bytes> row_bytes)
      : row_bytes_(std::move(row_bytes)), next_(row_bytes_.size()) {}
  void take(int output, int64_t row_begin, int64_t row_count, const void* rows) override {
    const auto place = static_cast<size_t>(output);
    EXPECT_EQ(first_row_ + row_begin, next_[place]);
    const int64_t bytes = row_bytes_[place].count();
    for (int64_t i = 0; i < row_count; ++i, ++next_[place]) {
      const std::vector<unsigned char> expected = row_of(next_[place], bytes);
      const auto* row = static_cast<const unsigned char*>(rows) + i * bytes;
      EXPECT_EQ(std::memcmp(row, expected.data(), expected.size()), 0);
    }
  }
  void set_first_row(int64_t row) { first_row_ = row; }
  int64_t taken(size_t output) const { return next_[output]; }

 private:
  std::vector<Bytes> row_bytes_;
  std::vector<int64_t> next_;
  int64_t first_row_ = 0;
};

// How many batches a rank computed.
int64_t predict(Ranks& ranks, const PredictionTurns::Options& options, int64_t rows,
                InOrder& asked) {
  PredictionTurns turns(ranks, options);
  int64_t computed = 0;
  for (int64_t batch = 0; batch < options.batches; ++batch) {
    const int64_t first = batch * kBatch;
    const int64_t here = std::min(kBatch, rows - first);
    asked.set_first_row(first);
    if (turns.has(batch)) {
      ++computed;
      OutputSink& sink = turns.sink(asked);
      for (int64_t row = 0; row < here; ++row) {
        for (size_t o = 0; o < options.row_bytes.size(); ++o) {
          const auto values = row_of(first + row, options.row_bytes[o].count());
          sink.take(static_cast<int>(o), row, 1, values.data());
        }
      }
    }
    turns.pass(batch, here, asked);
  }
  return computed;
}

struct Case {
  int ranks;
  int64_t rows;
  bool in_order;
};

class TurnsTest : public testing::TestWithParam<Case> {};

TEST_P(TurnsTest, AllRowsReachTheFirstRankInOrder) {
  const auto& [count, rows, in_order] = GetParam();
  PredictionTurns::Options options;
  options.row_bytes = {Bytes(3), 300_KiB, Bytes(0)};  // longer than a piece, too
  options.batch = kBatch;
  options.batches = (rows + kBatch - 1) / kBatch;
  options.in_order = in_order;
  toys::ThreadMeeting meeting;
  InOrder first(options.row_bytes);
  std::vector<int64_t> computed(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      toys::ThreadRanks ranks(meeting, rank, count);
      InOrder nowhere(options.row_bytes);
      computed[static_cast<size_t>(rank)] =
          predict(ranks, options, rows, rank == 0 ? first : nowhere);
      EXPECT_TRUE(rank == 0 || nowhere.taken(0) == 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t o = 0; o < options.row_bytes.size(); ++o) EXPECT_EQ(first.taken(o), rows);
  int64_t all = 0;
  for (const int64_t own : computed) all += own;
  EXPECT_EQ(all, options.batches);
  EXPECT_GE(computed[0], in_order ? all : 0);
  EXPECT_LE(computed[0], in_order ? all : all / count + 1);
}

INSTANTIATE_TEST_SUITE_P(Rows, TurnsTest,
                         testing::Values(Case{2, 1, false}, Case{2, 7, false}, Case{2, 200, false},
                                         Case{4, 40, false}, Case{4, 203, false},
                                         Case{2, 23, true}));

TEST(PredictionTurns, APieceHoldsTheLongestRow) {
  const std::vector<Bytes> rows = {Bytes(3), 3_MiB};
  EXPECT_EQ(PredictionTurns::piece_bytes(rows), 3_MiB);
  EXPECT_EQ(PredictionTurns::piece_bytes(std::vector<Bytes>{Bytes(8)}), 256_KiB);
}

}  // namespace
}  // namespace plimsoll::train
