#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

Shape image() { return {Dim::batch(), of(4), of(5), of(3)}; }

}  // namespace

std::vector<Case> shape_cases() {
  return {
      {.name = "reshape",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.input("x", image());
             c.result(c.call("reshape", {x}, {{"shape", std::vector<int64_t>{6, 10}}}));
           }},
      {.name = "concat_of_channels",
       .build =
           [](CaseBuilder& c) {
             const ValueId a = c.input("a", image());
             const ValueId b = c.input("b", {Dim::batch(), of(4), of(5), of(7)});
             c.result(c.call("concat", {a, b, a}, {{"axis", -1}}));
           }},
      {.name = "concat_of_rows",
       .build =
           [](CaseBuilder& c) {
             const ValueId a = c.input("a", image());
             const ValueId b = c.input("b", {Dim::batch(), of(2), of(5), of(3)});
             c.result(c.call("concat", {a, b}, {{"axis", 1}}));
           }},
      {.name = "slice",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.input("x", image());
             c.result(c.call("slice", {x}, {{"axis", 2}, {"begin", 1}, {"count", 3}}));
           }},
      {.name = "pad_axis",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.input("x", image());
             c.result(c.call("pad_axis", {x}, {{"axis", 3}, {"before", 2}, {"after", 1}}));
           }},
      {.name = "zero_pad2d",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.input("x", image());
             c.result(c.call("zero_pad2d", {x}, {{"padding", std::vector<int64_t>{1, 2, 0, 3}}}));
           }},
      {.name = "crop2d",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.input("x", image());
             c.result(c.call("crop2d", {x}, {{"cropping", std::vector<int64_t>{1, 0, 2, 1}}}));
           }},
      {.name = "transpose_to_channels_last",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.input("x", image());
             c.result(c.call("transpose", {x}, {{"permutation", std::vector<int64_t>{2, 3, 1}}}));
           }},
      {.name = "transpose_of_two",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.input("x", {Dim::batch(), of(9), of(17)});
             c.result(c.call("transpose", {x}, {{"permutation", std::vector<int64_t>{2, 1}}}));
           }},
  };
}

}  // namespace plimsoll::ops_test
