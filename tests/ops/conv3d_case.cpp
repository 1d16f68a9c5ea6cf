#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

struct Shape3d {
  std::vector<int64_t> sizes;
  int64_t channels, filters;
  std::vector<int64_t> kernel, strides, padding, dilation;
  int64_t groups;
};

Shape volume(const std::vector<int64_t>& sizes, int64_t channels) {
  return {Dim::batch(), of(sizes[0]), of(sizes[1]), of(sizes[2]), of(channels)};
}
Shape kernel_of(const Shape3d& s) {
  return {of(s.kernel[0]), of(s.kernel[1]), of(s.kernel[2]), of(s.channels / s.groups),
          of(s.filters)};
}

Attributes attributes_of(const Shape3d& s) {
  return {{"filters", s.filters}, {"kernel_size", s.kernel},     {"strides", s.strides},
          {"padding", s.padding}, {"dilation_rate", s.dilation}, {"groups", s.groups},
          {"use_bias", false},    {"activation", "linear"}};
}

// conv3d, then a bias and relu of their own: what the fuse pass merges.
Case separate(const std::string& name, const Shape3d& s) {
  return {.name = name, .build = [s](CaseBuilder& c) {
            const ValueId x = c.input("x", volume(s.sizes, s.channels));
            const ValueId w = c.input("w", kernel_of(s));
            const ValueId b = c.input("b", {of(s.filters)});
            ValueId y = c.call("conv3d", {x, w}, attributes_of(s));
            y = c.call("bias_add", {y, b});
            c.result(c.call("activation", {y}, {{"kind", "relu"}}));
          }};
}

// With bias and relu inside, as the fuse pass leaves it.
Case fused(const std::string& name, const Shape3d& s) {
  return {.name = name, .build = [s](CaseBuilder& c) {
            const ValueId x = c.input("x", volume(s.sizes, s.channels));
            const ValueId w = c.input("w", kernel_of(s));
            const ValueId b = c.input("b", {of(s.filters)});
            Attributes attributes = attributes_of(s);
            attributes.set("use_bias", true);
            attributes.set("activation", "relu");
            c.result(c.call("conv3d", {x, w, b}, attributes));
          }};
}

// A transposed convolution: from the small volume to the large one.
Case transposed(const std::string& name, const Shape3d& s, const std::vector<int64_t>& small) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId x = c.input("x", volume(small, s.filters));
            const ValueId w = c.input("w", kernel_of(s));
            Attributes attributes = attributes_of(s);
            std::vector<int64_t> large = s.sizes;
            large.push_back(s.channels);
            attributes.set("input_shape", large);
            c.result(c.call("conv3d_grad_input", {x, w}, attributes));
          }};
}

Case pool(const std::string& name, std::vector<int64_t> size, std::vector<int64_t> strides,
          std::vector<int64_t> padding, int64_t channels) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId x = c.input("x", volume({5, 6, 4}, channels));
            const Attributes attributes{
                {"pool_size", size}, {"strides", strides}, {"padding", padding}};
            c.result(c.call("max_pool3d", {x}, attributes));
          }};
}

}  // namespace

std::vector<Case> conv3d_cases() {
  const std::vector<int64_t> one = {1, 1, 1};
  const std::vector<int64_t> none = {0, 0, 0, 0, 0, 0};
  return {
      separate("conv3d", {{4, 5, 6}, 3, 5, {3, 2, 3}, one, none, one, 1}),
      separate("conv3d_same_strided",
               {{5, 6, 4}, 4, 16, {3, 3, 3}, {2, 1, 2}, {1, 1, 1, 1, 0, 1}, one, 1}),
      separate("conv3d_dilated",
               {{6, 5, 7}, 2, 3, {2, 3, 2}, one, {1, 1, 2, 2, 2, 1}, {2, 2, 3}, 1}),
      separate("conv3d_grouped", {{3, 4, 4}, 4, 6, {3, 3, 1}, one, {1, 1, 1, 1, 0, 0}, one, 2}),
      separate("conv3d_of_single_channels",
               {{4, 3, 5}, 4, 4, {2, 3, 3}, one, {1, 0, 1, 1, 1, 1}, one, 4}),
      separate("conv3d_pointwise", {{3, 2, 4}, 8, 16, one, one, none, one, 1}),
      separate("conv3d_pointwise_strided", {{4, 3, 5}, 8, 16, one, {2, 1, 2}, none, one, 1}),
      transposed("conv3d_transpose", {{4, 6, 6}, 5, 3, {2, 2, 2}, {2, 2, 2}, none, one, 1},
                 {2, 3, 3}),
      transposed("conv3d_transpose_same",
                 {{4, 6, 3}, 16, 8, {3, 3, 3}, {2, 3, 1}, {0, 1, 0, 0, 1, 1}, one, 1}, {2, 2, 3}),
      fused("conv3d_fused", {{4, 3, 5}, 3, 8, {3, 3, 3}, one, {1, 1, 1, 1, 1, 1}, one, 1}),
      pool("max_pool3d", {2, 2, 2}, {2, 2, 2}, none, 5),
      pool("max_pool3d_overlapping", {3, 2, 3}, {2, 1, 1}, {1, 1, 0, 1, 1, 1}, 18),
      pool("max_pool3d_same", {2, 3, 2}, {2, 3, 2}, {0, 1, 0, 0, 0, 0}, 70),
  };
}

}  // namespace plimsoll::ops_test
