#pragma once

// Where the windows of a convolution or a pooling meet its input, dimension by dimension.
//
//   input row = output row * stride + kernel row * dilation - padding before
//
// Positions outside of the input count as zero for convolutions and as absent for poolings.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"

namespace plimsoll::ops {

// One spatial dimension.
struct Window {
  int64_t input = 0;
  int64_t output = 0;
  int64_t size = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t before = 0;  // padding in front
  int64_t after = 0;

  // Input position under kernel position `tap` of output position `at`; may lie outside.
  constexpr int64_t position(int64_t at, int64_t tap) const {
    return at * stride + tap * dilation - before;
  }
  constexpr bool inside(int64_t position) const { return position >= 0 && position < input; }
  // Output extent; 0 or less where the window is larger than the padded input.
  constexpr int64_t fitting_output() const {
    const int64_t room = input + before + after - ((size - 1) * dilation + 1);
    return room < 0 ? 0 : room / stride + 1;
  }
  friend bool operator==(const Window&, const Window&) = default;
};

// A dimension of one position.
inline constexpr Window kOnePosition{.input = 1, .output = 1};

// All spatial dimensions, one to three, outermost first: those of a volume are slabs, rows and
// columns, those of an image rows and columns. Dimensions that are not there have one position, so
// that an image is a volume of one slab.
class Windows {
 public:
  static constexpr size_t kMostRank = 3;

  explicit Windows(size_t rank = 2) : rank_(rank) {
    PLIMSOLL_CHECK(rank >= 1 && rank <= kMostRank, "windows of an unknown rank");
    all_.fill(kOnePosition);
  }

  size_t rank() const { return rank_; }
  // [0]: the outermost, dimension 1 of the values.
  Window& operator[](size_t i) { return all_[kMostRank - rank_ + i]; }
  const Window& operator[](size_t i) const { return all_[kMostRank - rank_ + i]; }
  auto begin() const { return all_.end() - static_cast<std::ptrdiff_t>(rank_); }
  auto end() const { return all_.end(); }

  const Window& slabs() const { return all_[0]; }
  const Window& rows() const { return all_[1]; }
  const Window& columns() const { return all_[2]; }

  // Positions of the input, of the output, and of a window.
  int64_t inputs() const { return slabs().input * rows().input * columns().input; }
  int64_t outputs() const { return slabs().output * rows().output * columns().output; }
  int64_t taps() const { return slabs().size * rows().size * columns().size; }

  friend bool operator==(const Windows&, const Windows&) = default;

 private:
  std::array<Window, kMostRank> all_;
  size_t rank_;
};

// As many dimensions as `input` has extents; `size`, `stride` and `dilation` have one number for
// each, `padding` two: before and after.
inline Windows make_windows(std::span<const int64_t> input, std::span<const int64_t> size,
                            std::span<const int64_t> stride, std::span<const int64_t> dilation,
                            std::span<const int64_t> padding) {
  Windows windows(input.size());
  for (size_t i = 0; i < input.size(); ++i) {
    Window& window = windows[i];
    window.input = input[i];
    window.size = size[i];
    window.stride = stride[i];
    window.dilation = dilation[i];
    window.before = padding[2 * i];
    window.after = padding[2 * i + 1];
    window.output = window.fitting_output();
  }
  return windows;
}

}  // namespace plimsoll::ops
