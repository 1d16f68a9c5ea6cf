#pragma once

// Packed weights: how a kernel's own layout maps to the plain one, as text and as loops.
//
// The vendor's layouts of weights are blocked: an outer stride per dimension, and inner blocks in
// the innermost positions. The offset of an element is then a sum of one function per dimension,
// so one table of offsets per dimension says it all:
//
//   plain (height, width, channels, filters)          blocked, 16 filters together
//   offset = tables[h] + tables[w] + tables[i] + tables[o]
//
// The text form is the whole description, so that a pack node of a graph text can be run without
// asking the kernel that wanted it. Logical dimensions are the vendor's: (o, i, h, w), with groups
// (g, o, i, h, w), of volumes always (g, o, i, d, h, w); a matrix of a dense layer is (k, n).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/onednn/vendor.h"
#include "base/bytes.h"

namespace plimsoll::backend::onednn {

struct PackedLayout {
  std::vector<int64_t> dims;
  std::vector<int64_t> padded;
  std::vector<int64_t> strides;  // outer, in elements
  struct Block {
    int64_t size = 1;
    int dimension = 0;
    friend bool operator==(const Block&, const Block&) = default;
  };
  std::vector<Block> blocks;  // outermost first
  int64_t element_bytes = 4;  // of float32; 2: of bfloat16

  Bytes bytes() const;
  friend bool operator==(const PackedLayout&, const PackedLayout&) = default;
};

// Throws kBackend where the vendor's layout is not blocked.
PackedLayout packed_layout(const dnnl::memory::desc& description);
// "f32:d64x32x3x3:p64x32x3x3:s9216x16x3072x1024:b16@0x…", "bf16:…"; no blanks.
std::string print(const PackedLayout& layout);
// Throws kModel: the text comes from a graph.
PackedLayout parse_packed_layout(std::string_view text);

// Where a packed weight's elements lie, per row and per column of the plain array.
struct PackedOffsets {
  std::vector<int64_t> rows;     // per (h, w, i), or k
  std::vector<int64_t> columns;  // per filter, or n
  int64_t run = 1;               // so many columns are always neighbours in packed memory
  bool transposed = false;       // rows are, four at least

  explicit PackedOffsets(const PackedLayout& layout);
};
// What the table of a layout takes. All that move weights of one layout share it while they live.
Bytes offset_table_bytes(const PackedLayout& layout);

// Moves weights between a plain (sizes…, channels, filters) or (k, n) array and a packed one.
// Everything is laid out when it is made; moving allocates nothing.
class WeightMover {
 public:
  // For weights of 2 (k, n), 4 (o, i, h, w), 5 (g, o, i, h, w) or 6 logical dimensions.
  WeightMover(const PackedLayout& layout, int most_parts);

  // Plain to packed; padding becomes zero.
  void pack(const float* plain, float* packed) const noexcept;
  void pack(const uint16_t* plain, uint16_t* packed) const noexcept;
  // Packed to plain: stores, or adds to what is there.
  void unpack(const float* packed, float* plain, bool add) const noexcept;

 private:
  void pack_transposed(const float* plain, float* packed) const noexcept;
  template <typename T>
  void pack_elements(const T* plain, T* packed) const noexcept;
  template <int kRun, typename Move>
  void move_rows(const Move& move) const noexcept;
  template <typename Move>
  void for_each_run(const Move& move) const noexcept;

  Bytes packed_bytes_;
  bool padded_ = false;
  int most_parts_ = 1;
  std::shared_ptr<const PackedOffsets> offsets_;
};

}  // namespace plimsoll::backend::onednn
