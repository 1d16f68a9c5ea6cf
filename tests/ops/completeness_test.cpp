// Every operator of the registry has a reference kernel and stands in the graph of a case.

#include <gtest/gtest.h>

#include <set>

#include "backend/reference/reference.h"
#include "ops/cases.h"
#include "ops/registry.h"

namespace plimsoll::ops_test {
namespace {

TEST(Completeness, EveryOperatorHasAReferenceKernel) {
  for (const graph::Op* op : ops::registry().all()) {
    const std::string name(op->name());
    if (op->traits().form_encoder) {
      const graph::ValueType type{DType::kFloat32, {Dim::batch(), Dim::constant(3)}};
      EXPECT_NE(backend::make_reference_encoder({name, type, 4}), nullptr) << name;
    } else {
      EXPECT_TRUE(backend::has_reference_kernel(name)) << name;
    }
  }
}

TEST(Completeness, EveryOperatorHasACase) {
  std::set<std::string, std::less<>> met;
  for (const Case& test_case : all_cases()) {
    const BuiltCase built = build_case(test_case, DType::kFloat32);
    for (size_t n = 0; n < built.graph.nodes.size(); ++n) {
      const graph::Node& node = built.graph.nodes[n];
      met.emplace(node.op->name());
      const auto inputs = graph::input_types(built.graph, graph::NodeId(n));
      const auto outputs = graph::output_types(built.graph, graph::NodeId(n));
      for (size_t i = 0; i < inputs.size(); ++i) {
        for (std::string& form :
             node.op->saved_forms({node.attributes, inputs, outputs}, static_cast<int>(i))) {
          met.insert(std::move(form));
        }
      }
    }
  }
  for (const graph::Op* op : ops::registry().all()) {
    EXPECT_TRUE(met.contains(op->name())) << op->name() << " stands in no case";
  }
}

TEST(Completeness, CaseNamesAreUnique) {
  std::set<std::string> names;
  for (const Case& test_case : all_cases()) {
    EXPECT_TRUE(names.insert(test_case.name).second) << test_case.name;
  }
}

}  // namespace
}  // namespace plimsoll::ops_test
