// Windows that slide: convolutions with kernels that the file holds, parts of images laid out as
// columns and added up again, stretches of sequences.

#include <algorithm>

#include "base/format.h"
#include "layers/kinds/image/convolution.h"
#include "layers/kinds/operation_call.h"

namespace plimsoll::layers {
namespace {

using Values = std::vector<ValueId>;
using Dims = std::vector<int64_t>;

constexpr int64_t kMostExtent = int64_t{1} << 20;  // that a number of an option may name
constexpr int64_t kMostPlaces = 65536;             // that are gathered along one axis
constexpr int64_t kMostPieces = 64;                // that sequences are put together of
constexpr int64_t kMostAdded = 256;                // places of a window whose values are added up

// One number for each of so many axes, or one for all.
Dims numbers_of(const OperationCall& call, std::string_view key, size_t count, int64_t least,
                int64_t fallback) {
  Dims given = call.option(key).is_null() ? Dims{fallback} : call.integers(key);
  if (given.size() == 1) given.assign(count, given[0]);
  const bool fits = given.size() == count && std::ranges::all_of(given, [&](int64_t one) {
                      return one >= least && one <= kMostExtent;
                    });
  if (!fits) {
    call.refuse(fmt::format("{} as {} numbers from {} to {}", key, count, least, kMostExtent),
                call.option(key).to_json().substr(0, 80));
  }
  return given;
}

struct Kernel {
  ValueId value;
  Dims dims;
};

Kernel kernel_of(const OperationCall& call, size_t position, std::string_view name, size_t rank) {
  const Operand one = call.operand(call.argument(position, name));
  if (one.number) call.refuse(fmt::format("{} as an array", name), "a number");
  const Shape shape = call.context().type(one.value).shape;
  if (shape.has_batch() || static_cast<size_t>(shape.rank()) != rank) {
    call.refuse(fmt::format("a {} of rank {} that the file holds", name, rank), to_string(shape),
                "Use the layer of that name, which has a kernel of its own.");
  }
  return {as_real(call.context(), one.value), shape.at(1)};
}

ConvolutionWindow window_of(const OperationCall& call, const Dims& kernel, size_t spatial) {
  ConvolutionWindow window;
  window.kernel_size.assign(kernel.begin(), kernel.begin() + static_cast<std::ptrdiff_t>(spatial));
  window.strides = numbers_of(call, "strides", spatial, 1, 1);
  window.dilation_rate = numbers_of(call, "dilation_rate", spatial, 1, 1);
  const Config& format = call.option("data_format");
  window.channels_first = format.is_string() && format.as_string() == "channels_first";
  const Config& padding = call.option("padding");
  window.padding = padding.is_string() ? padding.as_string() : "valid";
  if (window.padding != "valid" && window.padding != "same") {
    call.refuse("valid or same as padding", window.padding);
  }
  return window;
}

// A window that is longer than the image has no place in it.
void expect_places(const OperationCall& call, const ConvolutionWindow& window, ValueId image) {
  const Shape shape = call.context().type(image).shape;
  for (size_t d = 0; window.padding == "valid" && d < window.kernel_size.size(); ++d) {
    const int64_t reach = window.dilation_rate[d] * (window.kernel_size[d] - 1) + 1;
    if (reach > shape[static_cast<int>(d) + 1].count) {
      call.refuse("a kernel within the image", to_string(shape), "Use padding=\"same\".");
    }
  }
}

// conv: (sizes…, channels, filters). depthwise_conv: (sizes…, channels, kernels of each).
// separable_conv: that, and a kernel of size 1 over all channels.
Values convolution(const OperationCall& call) {
  LayerContext& context = call.context();
  const Operand given = call.operand(call.argument(0, "inputs"));
  if (given.number || !context.type(given.value).shape.has_batch()) {
    call.refuse("images of the model", "a constant");
  }
  const ValueId x = as_real(context, given.value);
  const int rank = context.type(x).shape.rank();
  const auto spatial = static_cast<size_t>(rank - 2);
  const bool depthwise = call.operation() != "Conv";
  if (rank < 3 || rank > (depthwise ? 4 : 5)) {
    call.refuse(depthwise ? "1 or 2 axes of space" : "1 to 3 axes of space",
                to_string(context.type(x).shape));
  }
  const bool separable = call.operation() == "SeparableConv";
  const Kernel kernel =
      kernel_of(call, 1, separable ? "depthwise_kernel" : "kernel", static_cast<size_t>(rank));
  const ConvolutionWindow window = window_of(call, kernel.dims, spatial);
  const ValueId image = to_image(context, x, window.channels_first);
  expect_places(call, window, image);
  const int64_t channels = channels_of(context.type(image).shape, false);
  const int64_t inputs = kernel.dims[spatial];
  const int64_t outputs = kernel.dims[spatial + 1];
  if (inputs != channels) {
    call.refuse(fmt::format("a kernel for {} channels", channels), std::to_string(inputs));
  }
  ValueId y = add_convolution(context, window, image, kernel.value,
                              depthwise ? channels * outputs : outputs, depthwise ? channels : 1);
  if (separable) {
    const Kernel all = kernel_of(call, 2, "pointwise_kernel", static_cast<size_t>(rank));
    ConvolutionWindow point;
    point.kernel_size.assign(spatial, 1);
    point.strides = point.dilation_rate = point.kernel_size;
    point.padding = "valid";
    Dims wanted = point.kernel_size;
    wanted.insert(wanted.end(), {channels * outputs, all.dims.back()});
    if (all.dims != wanted) {
      call.refuse(fmt::format("a pointwise kernel of size 1 for {} channels", channels * outputs),
                  to_string(fixed_shape(all.dims)));
    }
    y = add_convolution(context, point, y, all.value, all.dims.back(), 1);
  }
  return {from_image(context, y, static_cast<int>(spatial), window.channels_first)};
}

// A window along one axis, as Unfold and Fold count.
struct Slide {
  int64_t size = 1;
  int64_t dilation = 1;
  int64_t border = 0;
  int64_t stride = 1;
  int64_t extent = 0;  // with borders
  int64_t count = 0;   // of places
};

std::vector<Slide> slides_of(const OperationCall& call, const Dims& extents) {
  const Dims size = numbers_of(call, "kernel_size", 2, 1, 1);
  const Dims dilation = numbers_of(call, "dilation", 2, 1, 1);
  const Dims border = numbers_of(call, "padding", 2, 0, 0);
  const Dims stride = numbers_of(call, "stride", 2, 1, 1);
  std::vector<Slide> slides;
  for (size_t d = 0; d < 2; ++d) {
    Slide slide{size[d], dilation[d], border[d], stride[d], extents[d] + 2 * border[d], 0};
    const int64_t reach = slide.dilation * (slide.size - 1) + 1;
    if (reach > slide.extent) {
      call.refuse("a window within the image", fmt::format("{} of {}", reach, slide.extent));
    }
    slide.count = (slide.extent - reach) / slide.stride + 1;
    if (slide.size > kMostPlaces / slide.count) {
      call.refuse(fmt::format("at most {} places in all windows of an axis", kMostPlaces),
                  fmt::format("{} windows of {}", slide.count, slide.size));
    }
    slides.push_back(slide);
  }
  return slides;
}

// (channels, height, width) → (channels · window, places)
Values unfold(const OperationCall& call) {
  LayerContext& context = call.context();
  ValueId x = call.only_real();
  const Dims dims = dims_of(context, x);
  if (dims.size() != 3) {
    call.refuse("images (batch, channels, height, width)", to_string(context.type(x).shape));
  }
  const std::vector<Slide> slides = slides_of(call, {dims[1], dims[2]});
  for (size_t d = 0; d < 2; ++d) {
    const Slide& slide = slides[d];
    const auto axis = static_cast<int64_t>(d) + 2;
    x = padded(context, x, axis, slide.border, slide.border);
    Dims places;
    places.reserve(static_cast<size_t>(slide.size * slide.count));
    for (int64_t k = 0; k < slide.size; ++k) {
      for (int64_t i = 0; i < slide.count; ++i) {
        places.push_back(k * slide.dilation + i * slide.stride);
      }
    }
    x = taken(context, x, axis, places);
  }
  const Slide& rows = slides[0];
  const Slide& columns = slides[1];
  x = reshaped(context, x, {dims[0], rows.size, rows.count, columns.size, columns.count});
  x = permuted(context, x, {1, 2, 4, 3, 5});
  return {reshaped(context, x, {dims[0] * rows.size * columns.size, rows.count * columns.count})};
}

// Places of an axis at their distance, and zeros in between and around, up to an extent.
ValueId spread(LayerContext& context, ValueId x, int64_t axis, int64_t offset, const Slide& slide) {
  Dims dims = dims_of(context, x);
  const auto at = static_cast<size_t>(axis - 1);
  if (slide.stride > 1) {
    const int64_t width = (slide.count - 1) * slide.stride + 1;
    dims.insert(dims.begin() + axis, 1);
    x = padded(context, reshaped(context, x, dims), axis + 1, 0, slide.stride - 1);
    dims.erase(dims.begin() + axis);
    dims[at] = slide.count * slide.stride;
    x = sliced(context, reshaped(context, x, dims), axis, 0, width);
    return padded(context, x, axis, offset, slide.extent - offset - width);
  }
  return padded(context, x, axis, offset, slide.extent - offset - slide.count);
}

// Adds up an axis of windows, each at its place, along the axis of places.
ValueId added_up(LayerContext& context, ValueId x, int64_t window, int64_t places,
                 const Slide& slide) {
  ValueId sum;
  for (int64_t k = 0; k < slide.size; ++k) {
    const ValueId part =
        spread(context, sliced(context, x, window, k, 1), places, k * slide.dilation, slide);
    sum = sum.valid() ? context.emit("add", {sum, part}) : part;
  }
  return sum;
}

// (channels · window, places) → (channels, height, width): where windows overlap, their values are
// added up.
Values fold(const OperationCall& call) {
  LayerContext& context = call.context();
  ValueId x = call.only_real();
  const Dims dims = dims_of(context, x);
  const Dims size = numbers_of(call, "output_size", 2, 1, 1);
  const std::vector<Slide> slides = slides_of(call, size);
  const Slide& rows = slides[0];
  const Slide& columns = slides[1];
  const int64_t window = rows.size * columns.size;
  if (rows.size + columns.size > kMostAdded) {
    call.refuse(fmt::format("a window of at most {} rows and columns", kMostAdded),
                fmt::format("{} by {}", rows.size, columns.size));
  }
  if (dims.size() != 2 || dims[0] % window != 0 || dims[1] != rows.count * columns.count) {
    call.refuse(fmt::format("(batch, a multiple of {}, {})", window, rows.count * columns.count),
                to_string(context.type(x).shape));
  }
  const int64_t channels = dims[0] / window;
  x = reshaped(context, x, {channels, rows.size, columns.size, rows.count, columns.count});
  x = added_up(context, x, 3, 5, columns);
  x = added_up(context, x, 2, 4, rows);
  x = reshaped(context, x, {channels, rows.extent, columns.extent});
  x = sliced(context, x, 2, rows.border, size[0]);
  return {sliced(context, x, 3, columns.border, size[1])};
}

// (…, count, length) of a last axis: piece by piece of the length of a stride, which follow each
// other in the axis itself.
ValueId in_pieces(LayerContext& context, ValueId x, int64_t length, int64_t stride, int64_t count) {
  Dims dims = dims_of(context, x);
  const auto axis = static_cast<int64_t>(dims.size());
  const int64_t pieces = (length + stride - 1) / stride;
  const int64_t whole = (count + pieces - 1) * stride;
  if (whole > dims.back()) x = padded(context, x, axis, 0, whole - dims.back());
  dims.back() = count;
  dims.push_back(stride);
  Values parts;
  for (int64_t i = 0; i < pieces; ++i) {
    parts.push_back(reshaped(context, sliced(context, x, axis, i * stride, count * stride), dims));
  }
  const ValueId y =
      parts.size() == 1 ? parts[0] : context.emit("concat", parts, {{"axis", axis + 1}});
  return sliced(context, y, axis + 1, 0, length);
}

// Stretches of the last axis, each so many places after the one before.
Values sequences(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only();
  Dims dims = dims_of(context, x);
  if (dims.empty()) call.refuse("an axis after the batch", to_string(context.type(x).shape));
  const int64_t length = call.integer("sequence_length", 1, dims.back());
  const int64_t stride = call.integer("sequence_stride", 1, kMostElements);
  const int64_t count = 1 + (dims.back() - length) / stride;
  product_of(context, Dims{count, length});
  if (length <= kMostPieces * std::min(stride, dims.back())) {
    return {in_pieces(context, x, length, std::min(stride, dims.back()), count)};
  }
  if (length > kMostPlaces / count) {
    call.refuse(fmt::format("at most {} places in all sequences", kMostPlaces),
                fmt::format("{} sequences of {}", count, length),
                "Use longer strides, or cut them in the data.");
  }
  Dims places;
  places.reserve(static_cast<size_t>(count * length));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < length; ++k) places.push_back(i * stride + k);
  }
  const auto axis = static_cast<int64_t>(dims.size());
  const ValueId y = taken(context, x, axis, places);
  dims.back() = count;
  dims.push_back(length);
  return {reshaped(context, y, dims)};
}

constexpr OperationRow kRows[] = {
    {"Conv", convolution}, {"DepthwiseConv", convolution}, {"ExtractSequences", sequences},
    {"Fold", fold},        {"SeparableConv", convolution}, {"Unfold", unfold},
};

}  // namespace

std::span<const OperationRow> window_operations() { return kRows; }

}  // namespace plimsoll::layers
