#include "layers/kinds/image/spatial.h"

#include <algorithm>
#include <utility>

#include "base/ceil_div.h"
#include "base/error.h"

namespace plimsoll::layers {

std::vector<int64_t> same_padding(int64_t input, int64_t size, int64_t stride, int64_t dilation) {
  const int64_t output = ceil_div(input, stride);
  const int64_t span = (size - 1) * dilation + 1;
  const int64_t total = std::max<int64_t>((output - 1) * stride + span - input, 0);
  return {total / 2, total - total / 2};
}

std::vector<int64_t> window_padding(std::string_view padding, const Shape& image,
                                    const std::vector<int64_t>& size,
                                    const std::vector<int64_t>& strides,
                                    const std::vector<int64_t>& dilation) {
  std::vector<int64_t> all(2 * size.size(), 0);
  if (padding != "same") return all;
  for (size_t d = 0; d < size.size(); ++d) {
    const int64_t input = image[1 + static_cast<int>(d)].count;
    std::ranges::copy(same_padding(input, size[d], strides[d], dilation[d]),
                      all.begin() + static_cast<std::ptrdiff_t>(2 * d));
  }
  return all;
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
  return context.type(x).shape.rank() >= 4 ? x : context.image(x);
}

ValueId from_image(LayerContext& context, ValueId image, int spatial, bool channels_first) {
  if (spatial == 1) image = context.sequence(image);
  return channels_first ? context.channels_first(image) : image;
}

ValueId with_dims(LayerContext& context, ValueId x, std::vector<int64_t> dims) {
  return context.emit("reshape", {x}, {{"shape", std::move(dims)}});
}

ValueId volume_as_image(LayerContext& context, ValueId volume, Joined joined) {
  const Shape shape = context.type(volume).shape;
  const int64_t depth = shape[1].count;
  const int64_t height = shape[2].count;
  const int64_t width = shape[3].count;
  const int64_t channels = shape[4].count;
  switch (joined) {
    case Joined::kWidthAndChannels:
      return with_dims(context, volume, {depth, height, width * channels});
    case Joined::kDepthAndHeight:
      return with_dims(context, volume, {depth * height, width, channels});
    case Joined::kHeightAndWidth:
      return with_dims(context, volume, {depth, height * width, channels});
  }
  PLIMSOLL_CHECK(false, "unknown neighbours");
}

}  // namespace plimsoll::layers
