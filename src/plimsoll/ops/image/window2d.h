#pragma once

// Where a two-dimensional window of a convolution or a pooling meets its input.
//
//   input row = output row * stride + kernel row * dilation - padding before
//
// Positions outside of the input count as zero for convolutions and as absent for poolings.

#include <array>
#include <cstdint>
#include <vector>

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

// Height and width.
using Window2d = std::array<Window, 2>;

// `size`, `stride` and `dilation` are (height, width); `padding` is top, bottom, left, right.
inline Window2d make_window2d(int64_t height, int64_t width, const std::vector<int64_t>& size,
                              const std::vector<int64_t>& stride,
                              const std::vector<int64_t>& dilation,
                              const std::vector<int64_t>& padding) {
  Window2d window;
  for (size_t i = 0; i < 2; ++i) {
    window[i].input = i == 0 ? height : width;
    window[i].size = size[i];
    window[i].stride = stride[i];
    window[i].dilation = dilation[i];
    window[i].before = padding[2 * i];
    window[i].after = padding[2 * i + 1];
    window[i].output = window[i].fitting_output();
  }
  return window;
}

}  // namespace plimsoll::ops
