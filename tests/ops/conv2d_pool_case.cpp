#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

struct Stage {
  int64_t height, width, channels, filters;
  std::vector<int64_t> kernel, strides, padding, dilation, pool;
  bool bias = true;
  bool relu = true;
};

Attributes convolution(const Stage& s) {
  return {{"filters", s.filters}, {"kernel_size", s.kernel},     {"strides", s.strides},
          {"padding", s.padding}, {"dilation_rate", s.dilation}, {"groups", int64_t{1}},
          {"use_bias", false},    {"activation", "linear"}};
}

struct Operands {
  ValueId x, w, b;
};
Operands operands(CaseBuilder& c, const Stage& s) {
  const ValueId x = c.input("x", {Dim::batch(), of(s.height), of(s.width), of(s.channels)});
  const ValueId w = c.input("w", {of(s.kernel[0]), of(s.kernel[1]), of(s.channels), of(s.filters)});
  return {x, w, s.bias ? c.input("b", {of(s.filters)}) : ValueId()};
}

// Node by node: what the fuse pass merges.
Case separate(const std::string& name, const Stage& s) {
  return {.name = name, .build = [s](CaseBuilder& c) {
            const Operands o = operands(c, s);
            ValueId y = c.call("conv2d", {o.x, o.w}, convolution(s));
            if (s.bias) y = c.call("bias_add", {y, o.b});
            if (s.relu) y = c.call("activation", {y}, {{"kind", "relu"}});
            c.result(c.call("max_pool2d", {y},
                            {{"pool_size", s.pool},
                             {"strides", s.pool},
                             {"padding", std::vector<int64_t>{0, 0, 0, 0}}}));
          }};
}

// As the fuse pass leaves it.
Case fused(const std::string& name, const Stage& s, int64_t batch = 5) {
  return {.name = name,
          .build =
              [s](CaseBuilder& c) {
                const Operands o = operands(c, s);
                Attributes attributes = convolution(s);
                attributes.set("use_bias", s.bias);
                attributes.set("activation", s.relu ? "relu" : "linear");
                attributes.set("pool_size", s.pool);
                c.result(c.call(
                    "conv2d_pool",
                    s.bias ? std::vector<ValueId>{o.x, o.w, o.b} : std::vector<ValueId>{o.x, o.w},
                    attributes));
              },
          .batch = batch};
}

}  // namespace

std::vector<Case> conv2d_pool_cases() {
  const Stage plain{8, 7, 3, 5, {3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, {2, 2}};
  const Stage same{6, 9, 4, 18, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, {2, 2}};
  const Stage wide{10, 12, 16, 32, {3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, {2, 2}};
  const Stage deep{7, 6, 40, 24, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, {2, 2}};
  const Stage strided{9, 10, 2, 4, {3, 2}, {2, 1}, {1, 0, 0, 1}, {1, 1}, {1, 3}};
  const Stage dilated{9, 9, 3, 4, {2, 3}, {1, 1}, {1, 2, 0, 1}, {3, 2}, {3, 2}};
  const Stage tall{9, 6, 56, 20, {5, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, {2, 2}};
  const Stage pooled{11, 14, 5, 19, {3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, {3, 3}};
  const Stage pooled_more{14, 13, 12, 17, {3, 2}, {1, 1}, {1, 1, 0, 1}, {1, 1}, {4, 4}};
  Stage linear = wide;
  linear.relu = false;
  Stage bare = same;
  bare.bias = false;
  return {
      separate("conv2d_pool_separate", plain),
      separate("conv2d_pool_separate_linear", linear),
      separate("conv2d_pool_separate_bare", bare),
      fused("conv2d_pool", plain),
      fused("conv2d_pool_same", same),
      fused("conv2d_pool_wide", wide),
      fused("conv2d_pool_one_image", wide, 1),
      fused("conv2d_pool_deep", deep),
      fused("conv2d_pool_tall", tall, 2),
      fused("conv2d_pool_strided", strided),
      fused("conv2d_pool_dilated", dilated),
      fused("conv2d_pool_nine", pooled),
      fused("conv2d_pool_sixteen", pooled_more),
      fused("conv2d_pool_linear", linear),
      fused("conv2d_pool_bare", bare),
  };
}

}  // namespace plimsoll::ops_test
