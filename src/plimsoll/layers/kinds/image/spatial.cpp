#include "layers/kinds/image/spatial.h"
#include "base/ceil_div.h"

#include <algorithm>

namespace plimsoll::layers {

std::vector<int64_t> same_padding(int64_t input, int64_t size, int64_t stride, int64_t dilation) {
  const int64_t output = ceil_div(input, stride);
  const int64_t span = (size - 1) * dilation + 1;
  const int64_t total = std::max<int64_t>((output - 1) * stride + span - input, 0);
  return {total / 2, total - total / 2};
}

std::vector<int64_t> window_padding(std::string_view padding, int64_t height, int64_t width,
                                    const std::vector<int64_t>& size,
                                    const std::vector<int64_t>& strides,
                                    const std::vector<int64_t>& dilation) {
  if (padding != "same") return {0, 0, 0, 0};
  const std::vector<int64_t> rows = same_padding(height, size[0], strides[0], dilation[0]);
  const std::vector<int64_t> columns = same_padding(width, size[1], strides[1], dilation[1]);
  return {rows[0], rows[1], columns[0], columns[1]};
}

std::vector<int64_t> both_dimensions(std::vector<int64_t> sizes, int64_t other) {
  if (sizes.size() == 1) sizes.push_back(other);
  return sizes;
}

int64_t channels_of(const Shape& shape, bool channels_first) {
  return shape[channels_first ? 1 : shape.rank() - 1].count;
}

ValueId to_image(LayerContext& context, ValueId x, bool channels_first) {
  if (channels_first) x = context.channels_last(x);
  const Shape shape = context.type(x).shape;
  if (shape.rank() == 4) return x;
  return context.emit("reshape", {x},
                      {{"shape", std::vector<int64_t>{shape[1].count, 1, shape[2].count}}});
}

ValueId from_image(LayerContext& context, ValueId image, int spatial, bool channels_first) {
  const Shape shape = context.type(image).shape;
  if (spatial == 1) {
    image = context.emit("reshape", {image},
                         {{"shape", std::vector<int64_t>{shape[1].count, shape[3].count}}});
  }
  return channels_first ? context.channels_first(image) : image;
}

}  // namespace plimsoll::layers
