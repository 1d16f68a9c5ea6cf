#pragma once

// What the convolution layers have in common: the window that slides over one to three dimensions,
// and one convolution node on an image or a volume (spatial.h).

#include "layers/kinds/image/spatial.h"
#include "layers/kinds/weighted.h"

namespace plimsoll::layers {

// In layers' own dimensions: one size for sequences, two for images, three for volumes.
struct ConvolutionWindow {
  std::vector<int64_t> kernel_size{};
  std::vector<int64_t> strides{};
  std::string padding{};
  bool channels_first = false;
  std::vector<int64_t> dilation_rate{};

  int spatial() const { return static_cast<int>(kernel_size.size()); }
};

// Reads kernel_size, strides, padding, data_format and dilation_rate, in Keras's order. "causal"
// where `causal` says that the layer has it.
ConvolutionWindow read_convolution_window(ConfigReader& reader, int spatial, bool causal);
// The parts of it, for layers with further keys in between.
std::string read_convolution_padding(ConfigReader& reader, int spatial, bool causal);

// Says how a convolution node sees its kernel where that is not (sizes…, inputs, outputs); the
// elements are the same in the same order.
void set_kernel_shape(Attributes& attributes, const Shape& kernel, int64_t inputs, int64_t outputs);

// Adds the convolution of an image, or of a volume, with a kernel of `filters` columns, whatever
// its shape.
ValueId add_convolution(LayerContext& context, const ConvolutionWindow& window, ValueId image,
                        ValueId kernel, int64_t filters, int64_t groups);

// Adds bias and activation, and goes back to the layer's own layout.
ValueId finish_image(LayerContext& context, const KernelOptions& options, ValueId product,
                     const ConvolutionWindow& window);

}  // namespace plimsoll::layers
