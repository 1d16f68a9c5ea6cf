#pragma once

// One case per operator: a tiny graph, from which everything is tested.
//
// To add an operator: write its case in x_case.cpp beside the others, declare it in cases.h and
// list it in cases.cpp. A case builds its graph by CaseBuilder, for float32 and for float64 alike:
//
//   Case{.name = "dense", .build = [](CaseBuilder& c) {
//     const ValueId x = c.input("x", {Dim::batch(), Dim::constant(7)});
//     const ValueId w = c.input("w", {Dim::constant(7), Dim::constant(5)});
//     c.result(c.call("dense", {x, w}, {{"units", 5}}));
//   }}
//
// The runner (case_test.cpp) adds a loss Σ result · random numbers and its gradients, and then runs
// every node of the graph, gradient operators included: float32 against float64, gradients against
// finite differences, other backends against the reference, in blocks and in one piece, at shifted
// addresses, twice, in place, and with saved forms.

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "graph/ir.h"
#include "ops/buffer.h"

namespace plimsoll::ops_test {

using graph::Attributes;
using graph::ValueId;

// What an input is filled with.
enum class Fill {
  kNormal,
  kPositive,     // uniform in [0.5, 1.5)
  kProbability,  // uniform in [0.05, 0.95)
  kSimplex,      // positive rows that sum to one
  kOneHot,       // rows with a single one
  kBinary,       // 0 or 1
  kClass,        // integers in [0, classes)
  kBytes,        // small integers, for casts
};

class CaseBuilder {
 public:
  explicit CaseBuilder(DType real);

  graph::GraphBuilder& builder() { return builder_; }
  DType real() const { return real_; }

  // A floating input whose gradient is checked.
  ValueId input(const std::string& name, Shape shape, Fill fill = Fill::kNormal);
  // An input that gets no gradient; floating, unless `dtype` says another type.
  ValueId constant(const std::string& name, Shape shape, Fill fill = Fill::kNormal);
  ValueId integers(const std::string& name, Shape shape, DType dtype, int64_t classes,
                   Fill fill = Fill::kClass);

  ValueId call(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {});
  // A result that enters the loss.
  void result(ValueId value);

  struct Feed {
    ValueId value;
    Fill fill = Fill::kNormal;
    int64_t classes = 0;
  };
  const std::vector<Feed>& feeds() const { return feeds_; }
  const std::vector<ValueId>& targets() const { return targets_; }
  const std::vector<ValueId>& results() const { return results_; }

 private:
  DType real_;
  graph::GraphBuilder builder_;
  std::vector<Feed> feeds_;
  std::vector<ValueId> targets_;
  std::vector<ValueId> results_;
};

struct Case {
  std::string name;
  std::function<void(CaseBuilder&)> build;
  // Largest difference from float64, over the largest magnitude of the value.
  double tolerance = 1e-5;
  double gradient_tolerance = 1e-6;
  int64_t batch = 5;
  // A layout or kernel that only this backend knows; empty: all of them.
  std::string only = {};
};

// Test names are the case's.
void PrintTo(const Case& test_case, std::ostream* out);

// A case's graph with loss and gradients, and its filled inputs.
struct BuiltCase {
  graph::Graph graph;
  std::vector<CaseBuilder::Feed> feeds;
  std::vector<ValueId> targets;
  std::vector<ValueId> gradients;  // one per target
  ValueId loss;                    // invalid where no result enters one
  size_t forward_nodes = 0;        // nodes up to the loss
};
BuiltCase build_case(const Case& test_case, DType real);

// A buffer per value, inputs and states filled: the same numbers for float32 and float64.
std::vector<Buffer> fill_values(const BuiltCase& built, int64_t batch);
// The same for a graph that a pass made out of the case's.
std::vector<Buffer> fill_values(const graph::Graph& graph, const BuiltCase& built, int64_t batch);

}  // namespace plimsoll::ops_test
