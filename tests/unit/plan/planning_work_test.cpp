// How the work of planning grows with a network: counted in questions to the catalog, not in time.

#include <gtest/gtest.h>

#include "plan/search/planner.h"
#include "toys/toy_ops.h"
#include "unit/plan/toy_networks.h"

namespace plimsoll::plan {
namespace {

// Answers as toys do, and counts.
class CountingCatalog final : public graph::KernelCatalog {
 public:
  mutable int64_t questions = 0;

  std::string kernel_set() const override { return toys_.kernel_set(); }
  int block_set() const override { return toys_.block_set(); }
  int part_count() const override { return toys_.part_count(); }
  int thread_count() const override { return toys_.thread_count(); }
  graph::Block block(const graph::Graph& graph, graph::NodeId node) const override {
    ++questions;
    return toys_.block(graph, node);
  }
  Bytes scratch(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                std::span<const int64_t> extents,
                std::span<const std::string> forms) const override {
    ++questions;
    return toys_.scratch(graph, node, batch, extents, forms);
  }
  double seconds(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                 std::span<const int64_t> extents) const override {
    ++questions;
    return toys_.seconds(graph, node, batch, extents);
  }
  bool row_exact(const graph::Graph& graph, graph::NodeId node, int axis) const override {
    ++questions;
    return toys_.row_exact(graph, node, axis);
  }
  double spill_seconds(Bytes bytes, Spill direction) const override {
    return toys_.spill_seconds(bytes, direction);
  }
  double copy_seconds(Bytes bytes) const override { return toys_.copy_seconds(bytes); }

 private:
  toys::ToyCatalog toys_;
};

// What one plan takes with as much effort for each layer.
int64_t count_questions(size_t layers, bool normalized) {
  testing::ToyNetwork network;
  network.widths.assign(layers + 1, 8);
  network.normalized = normalized;
  CountingCatalog catalog;
  PlanOptions options;
  options.max_steps = static_cast<int64_t>(layers) * 100;
  EXPECT_NE(make_plan(testing::toy_network(network), catalog, options).fits(), nullptr);
  return catalog.questions;
}

TEST(PlanningWork, GrowsWithAChainAndNotWithItsSquare) {
  EXPECT_LE(count_questions(400, false), 5 * count_questions(100, false));
}

TEST(PlanningWork, GrowsWithTotalsBetweenLayersAndNotWithTheirSquare) {
  EXPECT_LE(count_questions(200, true), 5 * count_questions(50, true));
}

}  // namespace
}  // namespace plimsoll::plan
