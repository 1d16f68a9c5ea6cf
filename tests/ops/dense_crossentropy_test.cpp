// The node against the separate nodes that the fuse pass merges, in float64.

#include <gtest/gtest.h>

#include <cmath>

#include "backend/kernel/backends.h"
#include "ops/cases.h"
#include "ops/evaluate.h"
#include "ops/training/losses.h"

namespace plimsoll::ops_test {
namespace {

Case head(bool fused, bool bias) {
  return {
      .name = "head",
      .build =
          [=](CaseBuilder& c) {
            const Dim rows = Dim::constant(4), width = Dim::constant(6),
                      classes = Dim::constant(13);
            std::vector<ValueId> inputs = {c.input("x", {Dim::batch(), rows, width}),
                                           c.input("w", {width, classes})};
            if (bias) inputs.push_back(c.input("b", {classes}));
            const ValueId labels = c.integers("labels", {Dim::batch(), rows}, DType::kInt64, 14);
            if (fused) {
              inputs.push_back(labels);
              c.result(c.call("dense_crossentropy", inputs, {{"use_bias", bias}}));
              return;
            }
            ValueId y = c.call("dense", {inputs[0], inputs[1]}, {{"units", 13}});
            if (bias) y = c.call("bias_add", {y, inputs[2]});
            c.result(ops::sparse_crossentropy_from_logits(c.builder(), "loss", y, labels));
          },
      .batch = 3};
}

// Loss and gradients, one after the other.
std::vector<double> results(bool fused, bool bias) {
  const auto backend = backend::make_backend("reference", {});
  const Case test_case = head(fused, bias);
  const BuiltCase built = build_case(test_case, DType::kFloat64);
  std::vector<Buffer> values = fill_values(built, test_case.batch);
  evaluate(*backend, built.graph, test_case.batch, Blocks::kWhole, built.graph.nodes.size(),
           values);
  std::vector<double> all = {values[built.loss.index()].as<double>()[0]};
  for (ValueId gradient : built.gradients) {
    const Buffer& buffer = values[gradient.index()];
    const auto* numbers = buffer.as<double>();
    all.insert(all.end(), numbers, numbers + buffer.size() / sizeof(double));
  }
  return all;
}

TEST(DenseCrossentropy, IsWhatTheSeparateNodesAre) {
  for (bool bias : {false, true}) {
    const std::vector<double> expected = results(false, bias);
    const std::vector<double> actual = results(true, bias);
    ASSERT_EQ(actual.size(), expected.size());
    ASSERT_EQ(actual.size(), size_t{1 + 3 * 4 * 6 + 6 * 13} + (bias ? 13 : 0));
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_NEAR(actual[i], expected[i], 1e-13 * std::max(1.0, std::abs(expected[i]))) << i;
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops_test
