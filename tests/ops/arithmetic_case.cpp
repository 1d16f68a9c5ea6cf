#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Shape rows() { return {Dim::batch(), Dim::constant(3), Dim::constant(21)}; }

Case binary(const std::string& op) {
  return {.name = op, .build = [=](CaseBuilder& c) {
            const ValueId a = c.input("a", rows());
            c.result(c.call(op, {a, c.input("b", rows())}));
          }};
}

Case scaled(const std::string& op) {
  return {.name = op + "_by_scalar", .build = [=](CaseBuilder& c) {
            const ValueId a = c.input("a", rows());
            c.result(c.call(op, {a, c.input("b", Shape())}));
          }};
}

}  // namespace

std::vector<Case> arithmetic_cases() {
  return {
      binary("add"),
      binary("subtract"),
      binary("multiply"),
      binary("maximum"),
      binary("minimum"),
      scaled("add"),
      scaled("subtract"),
      scaled("multiply"),
      {.name = "square",
       .build =
           [](CaseBuilder& c) {
             const ValueId a = c.input("a", rows());
             c.result(c.call("multiply", {a, a}));
           }},
      {.name = "accumulate",
       .build =
           [](CaseBuilder& c) {
             const ValueId a = c.input("a", rows());
             c.result(c.call("accumulate", {a, c.input("b", rows())}));
           }},
      {.name = "scale_shift",
       .build =
           [](CaseBuilder& c) {
             const ValueId a = c.input("a", rows());
             c.result(c.call("scale_shift", {a}, {{"scale", 0.3}, {"offset", -1.5}}));
           }},
      {.name = "cast",
       .build =
           [](CaseBuilder& c) {
             for (DType dtype : {DType::kUInt8, DType::kInt32, DType::kInt64}) {
               const ValueId n = c.integers("n", rows(), dtype, 0, Fill::kBytes);
               const ValueId x = c.call("cast", {n}, {{"dtype", std::string(to_string(c.real()))}});
               c.call("cast", {x}, {{"dtype", "int32"}});
             }
             const ValueId x = c.input("x", rows());
             c.call("cast", {x}, {{"dtype", "bool"}});
             const ValueId wide = c.call("cast", {x}, {{"dtype", "float64"}});
             c.result(c.call("cast", {wide}, {{"dtype", std::string(to_string(c.real()))}}));
           }},
      {.name = "bitcast",
       .build =
           [](CaseBuilder& c) {
             const Shape shape = {Dim::batch(), Dim::constant(3), Dim::constant(8)};
             const ValueId bytes = c.integers("bytes", shape, DType::kUInt8, 0, Fill::kBytes);
             for (const char* dtype : {"int8", "int32", "int64"}) {
               const ValueId y = c.call("bitcast", {bytes}, {{"dtype", dtype}});
               c.call("bitcast", {y}, {{"dtype", "uint8"}});
             }
             c.result(c.input("x", shape));
           }},
      {.name = "integer_pair",
       .build =
           [](CaseBuilder& c) {
             for (DType dtype : {DType::kUInt8, DType::kInt8, DType::kInt32, DType::kInt64}) {
               const ValueId a = c.integers("a", rows(), dtype, 0, Fill::kBytes);
               const ValueId b = c.integers("b", rows(), dtype, 9);
               for (const char* kind :
                    {"bit_and", "bit_or", "bit_xor", "floor_quotient", "floor_remainder", "gcd",
                     "hash", "lcm", "left_shift", "right_shift", "unsigned_remainder"}) {
                 c.call("integer_pair", {a, b}, {{"kind", kind}});
               }
             }
           }},
  };
}

}  // namespace plimsoll::ops_test
