#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

Case pool(const std::string& name, const std::string& op, std::vector<int64_t> size,
          std::vector<int64_t> strides, std::vector<int64_t> padding,
          const std::string& winners = "uint8") {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId x = c.input("x", {Dim::batch(), of(7), of(8), of(5)});
            Attributes attributes{{"pool_size", size}, {"strides", strides}, {"padding", padding}};
            if (op == "max_pool2d") attributes.set("winner_dtype", winners);
            c.result(c.call(op, {x}, attributes));
          }};
}

Case global(const std::string& name, const std::string& op, bool keepdims) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId x = c.input("x", {Dim::batch(), of(4), of(3), of(18)});
            c.result(c.call(op, {x}, {{"keepdims", keepdims}}));
          }};
}

Case upsample(const std::string& name, const std::string& interpolation,
              std::vector<int64_t> size) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId x =
                c.input("x", {Dim::batch(), Dim::constant(3), Dim::constant(4), Dim::constant(5)});
            c.result(c.call("upsample2d", {x}, {{"size", size}, {"interpolation", interpolation}}));
          }};
}

}  // namespace

std::vector<Case> pool_cases() {
  return {
      pool("max_pool2d", "max_pool2d", {2, 2}, {2, 2}, {0, 0, 0, 0}),
      pool("max_pool2d_overlapping", "max_pool2d", {3, 3}, {2, 1}, {1, 1, 1, 1}),
      pool("max_pool2d_same", "max_pool2d", {2, 3}, {2, 3}, {0, 1, 0, 1}),
      pool("max_pool2d_wide_winners", "max_pool2d", {3, 2}, {1, 1}, {0, 0, 0, 0}, "int32"),
      pool("avg_pool2d", "avg_pool2d", {2, 2}, {2, 2}, {0, 0, 0, 0}),
      pool("avg_pool2d_same", "avg_pool2d", {3, 3}, {2, 2}, {1, 1, 0, 1}),
      upsample("upsample2d_nearest", "nearest", {2, 3}),
      upsample("upsample2d_bilinear", "bilinear", {2, 3}),
      upsample("upsample2d_bilinear_of_rows", "bilinear", {4, 1}),
      global("global_average_pool2d", "global_average_pool2d", false),
      global("global_average_pool2d_keepdims", "global_average_pool2d", true),
      global("global_max_pool2d", "global_max_pool2d", false),
      global("global_max_pool2d_keepdims", "global_max_pool2d", true),
  };
}

}  // namespace plimsoll::ops_test
