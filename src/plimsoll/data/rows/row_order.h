#pragma once

// In which order an epoch takes the rows: as they are, shuffled in full, or shuffled in blocks.
//
// A full shuffle reads anywhere at any time, which a file that does not fit the page cache answers
// with one device access a row. Blocks keep reading local: neighbours of at least 1 MiB stay
// together, blocks are taken in a random order, and the rows of eight blocks at a time are shuffled
// among each other.
//
//   blocks of the file      0 1 2 3 4 5 6 7 8 9 …
//   order of the blocks     7 2 9 0 … | 4 8 1 … | …       groups of eight
//   rows of a group         in one shuffled order, from all of its blocks
//
// No table is kept: every position is computed on its own, from seed and epoch alone.

#include <cstdint>
#include <string>
#include <string_view>

#include "data/rows/permutation.h"

namespace plimsoll::data {

enum class Shuffle : uint8_t { kNone, kBlock, kFull };

std::string_view to_string(Shuffle shuffle);  // "none", "block", "full"
// Throws kConfig with a did-you-mean.
Shuffle parse_shuffle(std::string_view text);

class RowOrder {
 public:
  static constexpr int64_t kBlockBytes = 1 << 20;
  static constexpr int64_t kGroupBlocks = 8;
  // Rows of a block, for rows of so many bytes.
  static int64_t rows_of_block(int64_t row_bytes);

  // The rows as they are.
  explicit RowOrder(int64_t count);
  // `row_bytes`: of one row where it lies, for blocks.
  RowOrder(Shuffle shuffle, int64_t count, int64_t row_bytes, uint64_t seed, int64_t epoch);

  bool is_identity() const { return shuffle_ == Shuffle::kNone; }
  // Both in [0, count).
  int64_t row_at(int64_t position) const;

  // Groups of blocks, for reading ahead; one group of no blocks where rows are not shuffled so.
  int64_t group_of(int64_t position) const;
  int64_t group_count() const { return groups_; }
  int64_t blocks_in(int64_t group) const;
  struct Rows {
    int64_t first = 0;
    int64_t count = 0;
  };
  Rows block(int64_t group, int64_t index) const;

 private:
  struct Group {
    int64_t number = -1;
    int64_t begin = 0;  // first position
    int64_t rows = 0;
    Permutation order = Permutation(0);
  };
  const Group& open_group(int64_t number) const;
  // Positions as if the short block were as long as the others.
  int64_t padded(int64_t position, int64_t short_index) const;

  Shuffle shuffle_;
  int64_t count_;
  uint64_t seed_ = 0;
  int64_t epoch_ = 0;
  Permutation rows_;        // full
  int64_t block_rows_ = 1;  // block
  int64_t blocks_ = 0;
  int64_t groups_ = 1;
  int64_t missing_ = 0;   // rows that the last block of the file lacks
  int64_t short_at_ = 0;  // where that block stands in the order of the blocks
  Permutation block_order_;
  mutable Group groups_open_[2];  // the ones used last
};

}  // namespace plimsoll::data
