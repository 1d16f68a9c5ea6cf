#include "backend/onednn/convolution_operands.h"

namespace plimsoll::backend::onednn {
namespace {

using dnnl::memory;

memory::data_type factor_type(const Convolution& c) {
  return c.bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}
// Weights, or their gradient.
memory::data_type weight_type(const Convolution& c) {
  return c.kind == ConvolutionKind::kGradKernel ? memory::data_type::f32 : factor_type(c);
}
bool is_volume(const ops::ConvGeometry& g) { return g.window.rank() == 3; }

// With groups where there are some. Weights of volumes always have them (packed_layout.h).
bool has_groups(const ops::ConvGeometry& g) { return g.groups > 1 || is_volume(g); }

memory::dims weight_dims(const ops::ConvGeometry& g) {
  memory::dims dims = {g.group_filters(), g.group_channels()};
  for (const ops::Window& window : g.window) dims.push_back(window.size);
  if (has_groups(g)) dims.insert(dims.begin(), g.groups);
  return dims;
}

memory::format_tag channels_last(const ops::ConvGeometry& g) {
  return is_volume(g) ? memory::format_tag::ndhwc : memory::format_tag::nhwc;
}

}  // namespace

memory::desc plain_weights(const Convolution& c) {
  const ops::ConvGeometry& g = c.geometry;
  memory::dims strides;
  memory::dim stride = g.group_channels() * g.filters;
  for (size_t i = g.window.rank(); i-- > 0;) {
    strides.insert(strides.begin(), stride);
    stride *= g.window[i].size;
  }
  strides.insert(strides.begin(), {1, g.filters});
  if (has_groups(g)) strides.insert(strides.begin(), g.group_filters());
  return memory::desc(weight_dims(g), weight_type(c), strides);
}

memory::desc any_weights(const Convolution& c) {
  return memory::desc(weight_dims(c.geometry), weight_type(c), memory::format_tag::any);
}

memory::desc source_of(const Convolution& c) {
  const ops::ConvGeometry& g = c.geometry;
  memory::dims dims = {c.samples, g.channels};
  for (const ops::Window& window : g.window) dims.push_back(window.input);
  return memory::desc(dims, factor_type(c), channels_last(g));
}
memory::desc result_of(const Convolution& c) {
  const ops::ConvGeometry& g = c.geometry;
  memory::dims dims = {c.samples, g.filters};
  for (const ops::Window& window : g.window) dims.push_back(window.output);
  return memory::desc(dims, c.pools() ? memory::data_type::f32 : factor_type(c), channels_last(g));
}
memory::desc bias_of(const Convolution& c) {
  return memory::desc({c.geometry.filters}, memory::data_type::f32, memory::format_tag::a);
}

}  // namespace plimsoll::backend::onednn
