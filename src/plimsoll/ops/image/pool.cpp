#include "ops/image/pool.h"

#include <array>

#include "base/format.h"
#include "ops/rules.h"

namespace plimsoll::ops {

Windows pool_windows(const Attributes& attributes, std::span<const int64_t> sizes) {
  constexpr std::array<int64_t, Windows::kMostRank> kUndilated = {1, 1, 1};
  return make_windows(sizes, attributes.get_ints("pool_size"), attributes.get_ints("strides"),
                      kUndilated, attributes.get_ints("padding"));
}

Windows pool2d_window(const Attributes& attributes, int64_t height, int64_t width) {
  return pool_windows(attributes, std::array{height, width});
}

Windows checked_pool_windows(const NodeTypes& node, std::span<const int64_t> sizes) {
  const std::vector<int64_t> size = read_ints(node, "pool_size", sizes.size(), 1);
  read_ints(node, "strides", sizes.size(), 1);
  const std::vector<int64_t> padding = read_ints(node, "padding", 2 * sizes.size(), 0);
  for (size_t i = 0; i < padding.size(); ++i) {
    if (padding[i] >= size[i / 2]) {
      refuse("padding smaller than the window", std::to_string(padding[i]),
             "Use padding=\"same\" or \"valid\".");
    }
  }
  const Windows windows = pool_windows(node.attributes, sizes);
  for (const Window& window : windows) {
    if (window.output >= 1) continue;
    std::string received;
    for (const int64_t extent : sizes) {
      received += fmt::format("{}{}", received.empty() ? "" : " x ", extent);
    }
    refuse("an input at least as large as the window", received,
           "Use padding=\"same\", a smaller window, or a larger input.");
  }
  return windows;
}

Windows checked_pool2d_window(const NodeTypes& node, int64_t height, int64_t width) {
  return checked_pool_windows(node, std::array{height, width});
}

}  // namespace plimsoll::ops
