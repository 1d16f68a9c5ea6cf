#include "run/state_store.h"

#include <gtest/gtest.h>

#include "unit/formats/fixtures.h"

namespace plimsoll::run {
namespace {

using formats::MemoryState;
using formats::read_all;

MemoryState some_state() {
  MemoryState state;
  state.add_floats("dense/kernel", {2, 2}, {1, 2, 3, 4});
  state.add_floats("metrics/loss/total", {}, {9});
  state.add_floats("optimizer/dense/kernel/momentum", {2, 2}, {5, 6, 7, 8});
  state.add_floats("empty/bias", {0}, {});
  return state;
}

TEST(StateStore, KeepsEverythingButMetrics) {
  StateStore store;
  EXPECT_EQ(store.source(), nullptr);
  MemoryState state = some_state();
  store.capture(state);
  auto expected = read_all(state);
  expected.erase("metrics/loss/total");
  EXPECT_EQ(read_all(*store.source()), expected);
}

TEST(StateStore, CapturesItself) {
  StateStore store;
  MemoryState state = some_state();
  store.capture(state);
  const auto before = read_all(*store.source());
  store.capture(*store.source());
  EXPECT_EQ(read_all(*store.source()), before);
}

TEST(StateStore, DropsTheOptimizer) {
  StateStore store;
  store.drop_optimizer();
  MemoryState state = some_state();
  store.capture(state);
  store.drop_optimizer();
  EXPECT_EQ(find_tensor(*store.source(), "optimizer/dense/kernel/momentum"), -1);
  EXPECT_EQ(read_all(*store.source()).at("dense/kernel"), read_all(state).at("dense/kernel"));
}

TEST(StateStore, ReplacesOneTensor) {
  StateStore store;
  MemoryState state = some_state();
  store.capture(state);
  const std::vector<float> values = {10, 20, 30, 40};
  store.write("dense/kernel", std::as_bytes(std::span(values)));
  auto expected = read_all(state);
  expected.erase("metrics/loss/total");
  const auto bytes = std::as_bytes(std::span(values));
  expected["dense/kernel"].assign(bytes.begin(), bytes.end());
  EXPECT_EQ(read_all(*store.source()), expected);
}

TEST(StateStore, ReadsPiecesOfLargeTensors) {
  MemoryState state;
  std::vector<float> values(200'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  state.add_floats("wide/kernel", {200'000}, values);
  StateStore store;
  store.capture(state);
  float read[2] = {};
  store.source()->read(0, 150'001 * 4, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read[0], 150'001.0F);
  EXPECT_EQ(read[1], 150'002.0F);
}

}  // namespace
}  // namespace plimsoll::run
