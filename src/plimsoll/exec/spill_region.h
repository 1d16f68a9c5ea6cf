#pragma once

// A region of one instance in memory and of its copy in the spill file, and its pieces.
//
// A piece is contiguous at both ends and touches at most so many bytes of whole pages of the file;
// pieces come in the order of the memory. Nothing is allocated on the way once a walk has had its
// rank.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::exec {

struct SpillRegion {
  bool to_file = true;
  std::byte* memory = nullptr;          // first byte of the region
  int64_t offset = 0;                   // the same in the file
  int64_t unit = 0;                     // bytes of the innermost element
  std::vector<int64_t> rows;            // extents of the region
  std::vector<int64_t> memory_strides;  // in bytes
  std::vector<int64_t> file_strides;

  // After the last byte in the file.
  int64_t file_end() const;
};

struct SpillPiece {
  std::byte* memory = nullptr;
  int64_t offset = 0;  // in the file
  int64_t bytes = 0;
};

class RegionWalk {
 public:
  void reserve(size_t rank) { at_.reserve(rank); }
  // `most`: of the pages that a piece touches, a multiple of `page`.
  void start(const SpillRegion& region, int64_t page, int64_t most);
  bool ended() const { return ended_; }
  // The piece that is next; none has ended.
  SpillPiece piece(const SpillRegion& region) const;
  void advance(const SpillRegion& region);

 private:
  std::vector<int64_t> at_;  // position in the outer dimensions
  size_t outer_ = 0;         // dimensions that are not contiguous with what is inside of them
  int64_t run_ = 0;          // bytes that are
  int64_t inside_ = 0;       // of the run, up to the next piece
  int64_t page_ = 1;
  int64_t most_ = 1;
  bool ended_ = true;
};

}  // namespace plimsoll::exec
