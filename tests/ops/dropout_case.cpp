#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Case dropout(const std::string& name, double rate, int64_t rows) {
  return {
      .name = name, .build = [=](CaseBuilder& c) {
        const ValueId x = c.input("x", {Dim::batch(rows), Dim::constant(11), Dim::constant(67)});
        c.result(c.call("dropout", {x}, {{"rate", rate}, {"site", 17}}));
      }};
}

}  // namespace

std::vector<Case> dropout_cases() {
  return {dropout("dropout", 0.4, 1), dropout("dropout_of_nothing", 0.0, 1),
          dropout("dropout_of_several_rows", 0.25, 2)};
}

}  // namespace plimsoll::ops_test
