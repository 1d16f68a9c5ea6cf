#pragma once

// Predictions of ranks that take batches by turns, as one process computes them: batch i is that of
// rank i mod R.
//
// The first rank hands all of them on, in order. Another one keeps its batch in a file without a
// name until the first one comes to it: of all predictions, no more is held in memory than
// piece_bytes(). After each batch the first rank tells the others that it goes on, so that none
// waits for more than a batch without hearing of it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/ranks.h"
#include "base/tensor_io.h"

namespace plimsoll::train {

class PredictionTurns final : private OutputSink {
 public:
  struct Options {
    std::vector<Bytes> row_bytes;  // of each output
    int64_t batches = 0;           // of all ranks
    int64_t batch = 0;             // rows of each, but for the last one
    bool in_order = false;         // the first rank computes all, since each begins where one ends
    std::string spill_directory;
  };

  // Throws kIo, and kConfig where there is no folder for a file. `ranks` outlives this.
  PredictionTurns(Ranks& ranks, Options options);

  // What this holds in memory.
  static Bytes piece_bytes(std::span<const Bytes> row_bytes);

  // This rank's next batch after one of its own.
  int64_t every() const { return options_.in_order ? 1 : ranks_.count(); }
  // Whether this rank computes the batch, and where its rows go: to who asked for them, or to the
  // file. Rows are numbered within their batch, here and below.
  bool has(int64_t batch) const { return rank_of(batch) == ranks_.rank(); }
  OutputSink& sink(OutputSink& asked);
  // Called by every rank after every batch: on the first one hands `asked` the `rows` of a batch
  // that another one has.
  void pass(int64_t batch, int64_t rows, OutputSink& asked);

 private:
  int rank_of(int64_t batch) const;
  int64_t offset_of(size_t output) const;
  void take(int output, int64_t row_begin, int64_t row_count, const void* rows) override;
  void receive(int64_t batch, int64_t rows, OutputSink& asked);
  void send(int64_t rows);
  void tell();
  void hear_until(int64_t batch);
  // Calls `move` with each piece of a batch: its output, its first row, its rows, their bytes.
  template <typename Move>
  void for_each_piece(int64_t rows, const Move& move);

  Ranks& ranks_;
  Options options_;
  File file_;          // closed where this rank keeps nothing
  int64_t heard_ = 0;  // batches that the first rank is said to be through with
  std::vector<std::byte> piece_;
};

}  // namespace plimsoll::train
