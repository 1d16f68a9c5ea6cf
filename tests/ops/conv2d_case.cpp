#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

struct Shape2d {
  int64_t height, width, channels, filters;
  std::vector<int64_t> kernel, strides, padding, dilation;
  int64_t groups;
};

Attributes attributes_of(const Shape2d& s) {
  return {{"filters", s.filters}, {"kernel_size", s.kernel},     {"strides", s.strides},
          {"padding", s.padding}, {"dilation_rate", s.dilation}, {"groups", s.groups},
          {"use_bias", false},    {"activation", "linear"}};
}

// conv2d, then a bias and relu of their own: what the fuse pass merges.
Case separate(const std::string& name, const Shape2d& s) {
  return {
      .name = name, .build = [s](CaseBuilder& c) {
        const ValueId x = c.input("x", {Dim::batch(), of(s.height), of(s.width), of(s.channels)});
        const ValueId w = c.input(
            "w", {of(s.kernel[0]), of(s.kernel[1]), of(s.channels / s.groups), of(s.filters)});
        const ValueId b = c.input("b", {of(s.filters)});
        ValueId y = c.call("conv2d", {x, w}, attributes_of(s));
        y = c.call("bias_add", {y, b});
        c.result(c.call("activation", {y}, {{"kind", "relu"}}));
      }};
}

// With bias and relu inside, as the fuse pass leaves it.
Case fused(const std::string& name, const Shape2d& s) {
  return {
      .name = name, .build = [s](CaseBuilder& c) {
        const ValueId x = c.input("x", {Dim::batch(), of(s.height), of(s.width), of(s.channels)});
        const ValueId w = c.input(
            "w", {of(s.kernel[0]), of(s.kernel[1]), of(s.channels / s.groups), of(s.filters)});
        const ValueId b = c.input("b", {of(s.filters)});
        Attributes attributes = attributes_of(s);
        attributes.set("use_bias", true);
        attributes.set("activation", "relu");
        c.result(c.call("conv2d", {x, w, b}, attributes));
      }};
}

// A transposed convolution: from the small image to the large one; its gradients are the other two.
Case transposed(const std::string& name, const Shape2d& s, int64_t small_height,
                int64_t small_width) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId x =
                c.input("x", {Dim::batch(), of(small_height), of(small_width), of(s.filters)});
            const ValueId w = c.input(
                "w", {of(s.kernel[0]), of(s.kernel[1]), of(s.channels / s.groups), of(s.filters)});
            Attributes attributes = attributes_of(s);
            attributes.set("input_shape", std::vector<int64_t>{s.height, s.width, s.channels});
            c.result(c.call("conv2d_grad_input", {x, w}, attributes));
          }};
}

// A kernel of another shape with the same elements.
Case reshaped(const std::string& name, const Shape2d& s, const std::vector<int64_t>& shape) {
  return {
      .name = name, .build = [=](CaseBuilder& c) {
        const ValueId x = c.input("x", {Dim::batch(), of(s.height), of(s.width), of(s.channels)});
        const ValueId w = c.input("w", fixed_shape(shape));
        Attributes attributes = attributes_of(s);
        attributes.set("kernel_shape", shape);
        c.result(c.call("conv2d", {x, w}, attributes));
      }};
}

}  // namespace

std::vector<Case> conv2d_cases() {
  return {
      separate("conv2d", {6, 7, 3, 5, {3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1}),
      // More steps than a kernel's gradient takes at once, and steps before the first.
      separate("conv2d_dilated_steps", {270, 1, 8, 12, {2, 1}, {1, 1}, {7, 0, 0, 0}, {7, 1}, 1}),
      separate("conv2d_same_strided", {9, 8, 4, 16, {3, 3}, {2, 2}, {1, 1, 0, 1}, {1, 1}, 1}),
      separate("conv2d_dilated", {9, 9, 2, 3, {3, 2}, {1, 2}, {2, 2, 1, 1}, {2, 3}, 1}),
      separate("conv2d_grouped", {5, 5, 4, 6, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 2}),
      separate("conv2d_depthwise", {5, 6, 4, 4, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 4}),
      separate("conv2d_pointwise", {4, 4, 8, 16, {1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1}),
      reshaped("conv2d_depthwise_multiplied", {5, 6, 3, 6, {3, 2}, {2, 1}, {1, 1, 0, 1}, {1, 1}, 3},
               {3, 2, 3, 2}),
      reshaped("conv2d_of_sequences", {9, 1, 4, 5, {3, 1}, {1, 1}, {4, 0, 0, 0}, {2, 1}, 1},
               {3, 4, 5}),
      transposed("conv2d_transpose", {8, 6, 5, 3, {2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1}, 4, 3),
      transposed("conv2d_transpose_same", {8, 9, 16, 8, {3, 3}, {2, 3}, {0, 1, 0, 0}, {1, 1}, 1}, 4,
                 3),
      transposed("conv2d_transpose_dilated", {9, 8, 4, 6, {3, 2}, {1, 1}, {0, 0, 0, 0}, {2, 3}, 1},
                 5, 5),
      fused("conv2d_fused", {7, 6, 3, 8, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1}),
  };
}

}  // namespace plimsoll::ops_test
