// A catalog by measured times: what was measured, else the backend's estimate times a factor.

#include "backend/kernel/kernel_times.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "backend/kernel/backends.h"
#include "graph/builder.h"
#include "ops/registry.h"

namespace plimsoll::backend {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

Dim of(int64_t n) { return Dim::constant(n); }

// Two layers of one shape, one of another, and an activation.
Graph dense_layers() {
  graph::GraphBuilder builder(ops::registry());
  const ValueId x = builder.input("x", {DType::kFloat32, {Dim::batch(), of(6)}});
  const ValueId w = builder.input("w", {DType::kFloat32, {of(6), of(6)}});
  const ValueId v = builder.input("v", {DType::kFloat32, {of(6), of(5)}});
  builder.call("dense", "first", {x, w}, {{"units", 6}});
  builder.call("dense", "second", {x, w}, {{"units", 6}});
  builder.call("dense", "third", {x, v}, {{"units", 5}});
  builder.call("activation", "relu", {x}, {{"kind", "relu"}});
  return builder.finish();
}

TEST(KernelTimes, NodesOfOneShapeShareTheirTimesAtEveryBatch) {
  const Graph graph = dense_layers();
  const uint64_t key = node_key(graph, NodeId(0), 16);
  EXPECT_EQ(key, node_key(graph, NodeId(1), 16));
  EXPECT_EQ(key, node_key(graph, NodeId(0), 32));
  EXPECT_NE(key, node_key(graph, NodeId(2), 16));
  EXPECT_NE(key, node_key(graph, NodeId(3), 16));
  EXPECT_NE(call_key(key, std::vector<int64_t>{4, 6}), call_key(key, std::vector<int64_t>{6, 4}));
}

TEST(KernelTimes, WhatWasNotMeasuredIsTheEstimateTimesAFactor) {
  const Graph graph = dense_layers();
  const auto backend = make_backend("reference", {});
  auto times = std::make_shared<KernelTimes>();
  const std::vector<int64_t> block = {4, 6};
  const std::vector<int64_t> other = {2, 6};
  times->seconds.set(call_key(node_key(graph, NodeId(0), 16), block), 0.5);
  times->factors.set(node_key(graph, NodeId(0), 16), 3);
  times->factors.set(operator_key(graph, NodeId(0)), 7);
  const auto timed = make_timed_catalog(backend->catalog(), times, "");
  const auto ask = [&](const graph::KernelCatalog& catalog, size_t node,
                       const std::vector<int64_t>& extents) {
    return catalog.seconds(graph, NodeId(node), 16, extents);
  };
  const graph::KernelCatalog& own = backend->catalog();
  EXPECT_EQ(ask(*timed, 0, block), 0.5);
  EXPECT_EQ(ask(*timed, 1, block), 0.5);
  EXPECT_EQ(ask(*timed, 0, other), 3 * ask(own, 0, other));
  EXPECT_EQ(ask(*timed, 2, {4, 5}), 7 * ask(own, 2, {4, 5}));
  EXPECT_EQ(ask(*timed, 3, {4}), ask(own, 3, {4}));
}

TEST(KernelTimes, ARateHoldsForCallsThatAreAlike) {
  const Graph graph = dense_layers();
  const auto backend = make_backend("reference", {});
  const graph::KernelCatalog& own = backend->catalog();
  const std::vector<int64_t> block = {4, 6};
  const RateKeys keys = rate_keys(graph, NodeId(0), 16, block);
  EXPECT_EQ(keys.alike, rate_keys(graph, NodeId(1), 32, std::vector<int64_t>{2, 6}).alike);
  EXPECT_EQ(keys.named, rate_keys(graph, NodeId(2), 16, std::vector<int64_t>{4, 5}).named);
  // As many numbers as no cache has.
  const std::vector<int64_t> many = {1 << 20, 6};
  EXPECT_NE(keys.alike, rate_keys(graph, NodeId(0), 1 << 20, many).alike);
  EXPECT_EQ(keys.named, rate_keys(graph, NodeId(0), 1 << 20, many).named);
  EXPECT_NE(keys.family, rate_keys(graph, NodeId(3), 16, std::vector<int64_t>{4}).family);

  const auto ratio = [&](const KernelTimes& times, std::span<const int64_t> extents) {
    const auto timed = make_timed_catalog(own, std::make_shared<const KernelTimes>(times), "");
    return timed->seconds(graph, NodeId(0), 1 << 20, extents) /
           own.seconds(graph, NodeId(0), 1 << 20, extents);
  };
  KernelTimes times;
  times.rates.set(keys.family, 2);
  EXPECT_DOUBLE_EQ(ratio(times, block), 2);
  times.rates.set(keys.named, 3);
  EXPECT_DOUBLE_EQ(ratio(times, block), 3);
  times.rates.set(keys.alike, 4);
  EXPECT_DOUBLE_EQ(ratio(times, block), 4);
  EXPECT_DOUBLE_EQ(ratio(times, many), 3);
  times.factors.set(operator_key(graph, NodeId(0)), 5);  // of this model's kernels
  EXPECT_DOUBLE_EQ(ratio(times, block), 5);
}

TEST(KernelTimes, KindsOfOneOperatorHaveRatesOfTheirOwn) {
  graph::GraphBuilder builder(ops::registry());
  const ValueId x = builder.input("x", {DType::kFloat32, {Dim::batch(), of(8), of(8), of(16)}});
  const auto convolve = [&](const char* name, int64_t size, int64_t groups, int64_t filters) {
    const ValueId w =
        builder.input(std::string(name) + "_w",
                      {DType::kFloat32, {of(size), of(size), of(16 / groups), of(filters)}});
    builder.call("conv2d", name, {x, w},
                 {{"filters", filters},
                  {"kernel_size", std::vector<int64_t>{size, size}},
                  {"strides", std::vector<int64_t>{1, 1}},
                  {"padding", std::vector<int64_t>{0, 0, 0, 0}},
                  {"dilation_rate", std::vector<int64_t>{1, 1}},
                  {"groups", groups},
                  {"use_bias", false},
                  {"activation", "linear"}});
  };
  builder.call("activation", "relu", {x}, {{"kind", "relu"}});
  builder.call("activation", "tanh", {x}, {{"kind", "tanh"}});
  convolve("windows", 3, 1, 16);
  convolve("points", 1, 1, 16);
  convolve("apart", 3, 16, 16);
  convolve("image", 3, 1, 3);
  const Graph graph = builder.finish();
  const auto kind = [&](size_t node) {
    return rate_keys(graph, NodeId(node), 4, std::vector<int64_t>{4, 8, 16}).kind;
  };
  const auto named = [&](size_t node) {
    return rate_keys(graph, NodeId(node), 4, std::vector<int64_t>{4, 8, 16}).named;
  };
  EXPECT_EQ(named(0), named(1));
  EXPECT_NE(kind(0), kind(1));
  EXPECT_EQ(named(2), named(3));
  EXPECT_EQ(named(2), named(4));
  EXPECT_EQ((std::set{kind(2), kind(3), kind(4), kind(5)}).size(), 4u);
}

TEST(KernelTimes, RatesAreStepsOfAQuarterOfAnOctave) {
  EXPECT_EQ(rounded_rate(1), 1);
  EXPECT_EQ(rounded_rate(1.08), 1);
  EXPECT_DOUBLE_EQ(rounded_rate(1.1), std::exp2(0.25));
  EXPECT_DOUBLE_EQ(rounded_rate(3e9), rounded_rate(3.1e9));
  EXPECT_EQ(rounded_rate(0), 0);
}

TEST(KernelTimes, OnlyTimesAreOthers) {
  const Graph graph = dense_layers();
  const auto backend = make_backend("reference", {});
  const graph::KernelCatalog& own = backend->catalog();
  auto times = std::make_shared<KernelTimes>();
  times->copied = 2e9;
  times->streamed = 4e9;
  times->disks = {{"/there", 1e9, 2e9}};
  const auto timed = make_timed_catalog(own, times, "/there");
  EXPECT_EQ(timed->kernel_set(), own.kernel_set());
  EXPECT_EQ(timed->block_set(), own.block_set());
  EXPECT_EQ(timed->part_count(), own.part_count());
  EXPECT_EQ(timed->thread_count(), own.thread_count());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const NodeId node(n);
    EXPECT_EQ(timed->block(graph, node), own.block(graph, node));
    EXPECT_EQ(timed->row_exact(graph, node, 0), own.row_exact(graph, node, 0));
  }
  EXPECT_DOUBLE_EQ(timed->copy_seconds(Bytes(1000)), 5e-7);
  EXPECT_DOUBLE_EQ(timed->memory_seconds(Bytes(1000)), 2.5e-7);
  EXPECT_EQ(timed->cached(), own.cached());
  using Spill = graph::KernelCatalog::Spill;
  EXPECT_NEAR(timed->spill_seconds(1_GiB, Spill::kRead), 1.07, 0.01);
  EXPECT_NEAR(timed->spill_seconds(1_GiB, Spill::kWrite), 0.54, 0.01);
  EXPECT_NEAR(timed->spill_work_seconds(1_MiB), 5e-5 + 1.048576e-3 / 2, 1e-9);
  const auto elsewhere = make_timed_catalog(own, times, "/elsewhere");
  EXPECT_EQ(elsewhere->spill_work_seconds(1_KiB), 0);  // no disk was measured
  EXPECT_EQ(elsewhere->spill_seconds(1_KiB, Spill::kRead), own.spill_seconds(1_KiB, Spill::kRead));
}

}  // namespace
}  // namespace plimsoll::backend
