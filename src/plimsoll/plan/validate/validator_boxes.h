#pragma once

// Boxes of rows, and what of an instance holds what, for the validator.
//
// A box is one half-open range per dimension of a value, in global rows. HeldRows is a set of
// disjoint boxes, each with a progress: how many blocks of a sum have been folded into those rows
// (1 for rows that are computed in one go). Nothing here knows plans.

#include <cstdint>
#include <vector>

namespace plimsoll::plan::referee {

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

// The one element of a scalar is the box without ranges.
using Box = std::vector<Range>;

bool is_empty(const Box& box);

// Smallest and largest progress over a box; `least` is −1 where some row of it holds nothing.
struct Progress {
  int64_t least = -1;
  int64_t most = -1;
};

class HeldRows {
 public:
  void clear() { pieces_.clear(); }
  // Rows of `box` have this progress from now on, whatever they had before.
  void set(const Box& box, int64_t progress);
  void erase(const Box& box);
  // An empty box has any progress: {INT64_MAX, INT64_MAX}.
  Progress over(const Box& box) const;
  bool intersects(const Box& box) const;
  bool empty() const { return pieces_.empty(); }

 private:
  struct Piece {
    Box box;
    int64_t progress = 0;
  };
  void add_merged(Piece piece);
  std::vector<Piece> pieces_;
};

}  // namespace plimsoll::plan::referee
