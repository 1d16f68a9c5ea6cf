#include "train/prediction_turns.h"

#include <algorithm>
#include <utility>

#include "base/accounted.h"
#include "base/spill_folder.h"

namespace plimsoll::train {
namespace {

constexpr Bytes kPiece = 256_KiB;

}  // namespace

PredictionTurns::PredictionTurns(Ranks& ranks, Options options)
    : ranks_(ranks), options_(std::move(options)) {
  const MemoryTag tag(MemoryPart::kData);
  piece_.resize(piece_bytes(options_.row_bytes).size());
  if (ranks.rank() == 0 || options_.in_order) return;
  file_ = File::unlinked(choose_spill_folder(options_.spill_directory));
}

Bytes PredictionTurns::piece_bytes(std::span<const Bytes> row_bytes) {
  Bytes most = kPiece;
  for (const Bytes row : row_bytes) most = max(most, row);
  return most;
}

int PredictionTurns::rank_of(int64_t batch) const {
  return options_.in_order ? 0 : static_cast<int>(batch % ranks_.count());
}

int64_t PredictionTurns::offset_of(size_t output) const {
  Bytes row;
  for (size_t o = 0; o < output; ++o) row += options_.row_bytes[o];
  return row.count() * options_.batch;
}

OutputSink& PredictionTurns::sink(OutputSink& asked) { return ranks_.rank() == 0 ? asked : *this; }

void PredictionTurns::take(int output, int64_t row_begin, int64_t row_count, const void* rows) {
  const auto place = static_cast<size_t>(output);
  const int64_t row = options_.row_bytes[place].count();
  file_.write_at(offset_of(place) + row_begin * row,
                 {static_cast<const std::byte*>(rows), static_cast<size_t>(row_count * row)});
}

void PredictionTurns::pass(int64_t batch, int64_t rows, OutputSink& asked) {
  if (ranks_.rank() == 0) {
    if (!has(batch)) receive(batch, rows, asked);
    tell();
  } else if (has(batch)) {
    hear_until(batch);
    send(rows);
  }
  if (batch + 1 == options_.batches) hear_until(options_.batches);
}

void PredictionTurns::tell() {
  const std::byte on{};
  for (int peer = 1; peer < ranks_.count(); ++peer) ranks_.swap(peer, {&on, 1}, {});
  ranks_.check();
}

void PredictionTurns::hear_until(int64_t batch) {
  std::byte on{};
  for (; ranks_.rank() > 0 && heard_ < batch; ++heard_) {
    ranks_.swap(0, {}, {&on, 1});
    ranks_.check();
  }
}

template <typename Move>
void PredictionTurns::for_each_piece(int64_t rows, const Move& move) {
  for (size_t output = 0; output < options_.row_bytes.size(); ++output) {
    const int64_t row = options_.row_bytes[output].count();
    const int64_t together = row == 0 ? rows : std::ssize(piece_) / row;
    for (int64_t first = 0; first < rows; first += together) {
      const int64_t count = std::min(together, rows - first);
      move(output, first, count, std::span(piece_).first(static_cast<size_t>(count * row)));
    }
  }
}

void PredictionTurns::receive(int64_t batch, int64_t rows, OutputSink& asked) {
  for_each_piece(rows,
                 [&](size_t output, int64_t first, int64_t count, std::span<std::byte> piece) {
                   ranks_.swap(rank_of(batch), {}, piece);
                   ranks_.check();
                   asked.take(static_cast<int>(output), first, count, piece.data());
                 });
}

void PredictionTurns::send(int64_t rows) {
  for_each_piece(rows, [&](size_t output, int64_t first, int64_t, std::span<std::byte> piece) {
    file_.read_at(offset_of(output) + first * options_.row_bytes[output].count(), piece);
    ranks_.swap(0, piece, {});
    ranks_.check();
  });
}

}  // namespace plimsoll::train
