#include "data/rows/row_order.h"

#include <algorithm>
#include <utility>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/suggest.h"

namespace plimsoll::data {

std::string_view to_string(Shuffle shuffle) {
  return shuffle == Shuffle::kNone ? "none" : shuffle == Shuffle::kBlock ? "block" : "full";
}

Shuffle parse_shuffle(std::string_view text) {
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kBlock, Shuffle::kFull}) {
    if (text == to_string(shuffle)) return shuffle;
  }
  throw Error(ErrorKind::kConfig, "--shuffle: expected full, block or none, received \"" +
                                      std::string(text) + "\"." +
                                      did_you_mean(text, {"full", "block", "none"}));
}

RowOrder::RowOrder(int64_t count)
    : shuffle_(Shuffle::kNone), count_(count), rows_(count), block_order_(count) {}

RowOrder::RowOrder(Shuffle shuffle, int64_t count, int64_t row_bytes, uint64_t seed, int64_t epoch)
    : shuffle_(shuffle),
      count_(count),
      seed_(seed),
      epoch_(epoch),
      rows_(shuffle == Shuffle::kFull ? Permutation(count, seed, epoch) : Permutation(count)),
      block_order_(0) {
  if (shuffle_ != Shuffle::kBlock) return;
  block_rows_ = std::min(rows_of_block(row_bytes), count);
  blocks_ = ceil_div(count, block_rows_);
  groups_ = (blocks_ + kGroupBlocks - 1) / kGroupBlocks;
  missing_ = blocks_ * block_rows_ - count;
  block_order_ = Permutation(blocks_, seed, epoch);
  while (block_order_.row_at(short_at_) != blocks_ - 1) ++short_at_;
}

int64_t RowOrder::rows_of_block(int64_t row_bytes) {
  const int64_t bytes = std::max<int64_t>(row_bytes, 1);
  return std::max<int64_t>(ceil_div(kBlockBytes, bytes), 1);
}

int64_t RowOrder::padded(int64_t position, int64_t short_index) const {
  const bool after = position >= short_index * block_rows_ + (block_rows_ - missing_);
  return after ? position + missing_ : position;
}

int64_t RowOrder::group_of(int64_t position) const {
  if (shuffle_ != Shuffle::kBlock) return 0;
  return padded(position, short_at_) / (kGroupBlocks * block_rows_);
}

int64_t RowOrder::blocks_in(int64_t group) const {
  if (shuffle_ != Shuffle::kBlock) return 0;
  return std::min(kGroupBlocks, blocks_ - group * kGroupBlocks);
}

RowOrder::Rows RowOrder::block(int64_t group, int64_t index) const {
  const int64_t block = block_order_.row_at(group * kGroupBlocks + index);
  const int64_t first = block * block_rows_;
  return {first, std::min(block_rows_, count_ - first)};
}

const RowOrder::Group& RowOrder::open_group(int64_t number) const {
  if (groups_open_[0].number == number) return groups_open_[0];
  std::swap(groups_open_[0], groups_open_[1]);
  Group& group = groups_open_[0];
  if (group.number == number) return group;
  const auto begin_of = [&](int64_t block) {
    const int64_t position = std::min(block, blocks_) * block_rows_;
    return short_at_ < block ? position - missing_ : position;
  };
  group.number = number;
  group.begin = begin_of(number * kGroupBlocks);
  group.rows = begin_of((number + 1) * kGroupBlocks) - group.begin;
  const uint64_t seed = seed_ ^ mix_bits(static_cast<uint64_t>(number) + 1);
  group.order = Permutation(group.rows, seed, epoch_);
  return group;
}

int64_t RowOrder::row_at(int64_t position) const {
  if (shuffle_ != Shuffle::kBlock) return rows_.row_at(position);
  const Group& group = open_group(group_of(position));
  const int64_t within = group.order.row_at(position - group.begin);
  // Where the short block stands among the group's; after it or before it nothing is missing.
  const int64_t short_index = short_at_ - group.number * kGroupBlocks;
  const bool here = short_index >= 0 && short_index < kGroupBlocks;
  const int64_t place = here ? padded(within, short_index) : within;
  const int64_t block = block_order_.row_at(group.number * kGroupBlocks + place / block_rows_);
  return block * block_rows_ + place % block_rows_;
}

}  // namespace plimsoll::data
