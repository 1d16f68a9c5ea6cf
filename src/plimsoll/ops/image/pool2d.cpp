#include "ops/image/pool2d.h"

#include <algorithm>

#include "base/format.h"
#include "ops/rules.h"

namespace plimsoll::ops {

Window2d pool2d_window(const Attributes& attributes, int64_t height, int64_t width) {
  return make_window2d(height, width, attributes.get_ints("pool_size"),
                       attributes.get_ints("strides"), {1, 1}, attributes.get_ints("padding"));
}

Window2d checked_pool2d_window(const NodeTypes& node, int64_t height, int64_t width) {
  const std::vector<int64_t> size = read_ints(node, "pool_size", 2, 1);
  read_ints(node, "strides", 2, 1);
  const std::vector<int64_t> padding = read_ints(node, "padding", 4, 0);
  for (size_t i = 0; i < 4; ++i) {
    if (padding[i] >= size[i / 2]) {
      refuse("padding smaller than the window", std::to_string(padding[i]),
             "Use padding=\"same\" or \"valid\".");
    }
  }
  const Window2d window = pool2d_window(node.attributes, height, width);
  if (window[0].output < 1 || window[1].output < 1) {
    refuse("an input at least as large as the window", fmt::format("{} x {}", height, width),
           "Use padding=\"same\", a smaller window, or a larger input.");
  }
  return window;
}

}  // namespace plimsoll::ops
