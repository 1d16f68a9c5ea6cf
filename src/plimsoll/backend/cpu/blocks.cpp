#include "backend/cpu/blocks.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "backend/cpu/conv/patches.h"
#include "backend/cpu/conv/winograd.h"
#include "backend/cpu/families.h"
#include "backend/kernel/block.h"
#include "backend/reference/reference.h"
#include "graph/op.h"

namespace plimsoll::backend::cpu {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::OpFamily;
using graph::OpFusion;
using graph::OpPass;

// Work that makes the start of a call, about a microsecond for each thread, less than 2 % of it.
constexpr double kFlopsPerThread = 4e6;
// Passes over a weight gradient to add a block's share: read the share, read and write the sum.
constexpr double kAddPasses = 3.0;
// The part of a weight gradient's time that adding may take.
constexpr double kAddShare = 0.04;
// The speed of one thread's convolution, and of memory and the last cache; ratios of these matter,
// and they differ little between machines.
constexpr double kFlopsPerSecond = 1.1e11;
constexpr double kMemoryBytesPerSecond = 2e10;
constexpr double kCacheBytesPerSecond = 5e10;

constexpr int64_t kMostSamples = 64;
constexpr int64_t kMostDenseSamples = 128;
// A dense layer reuses its weights over so many rows at least, while that stays in the caches.
constexpr int64_t kLeastDenseRows = 16;
// The same of those that pack their weights in every call (cpu/packed_product.h).
constexpr int64_t kLeastPackedRows = 32;
// Weights that a thread's second cache does not hold come from farther away in every call, and so
// does what their gradient is added to: so many rows meet them there, more where even the last
// cache has too many of them, within so many bytes. Of samples that have several rows: others would
// need memory for many samples.
constexpr double kDistantWeightRows = 256;
constexpr double kFarWeightRows = 512;
constexpr double kDistantWeightCallBytes = 8 << 20;
constexpr double kWeightGradientCallBytes = 8 << 20;
// Samples of one thread that a step of a recurrent layer multiplies by each weight that it reads,
// and what its call may hold: with fewer samples its threads wait for weights.
constexpr int64_t kRecurrentRows = 8;
constexpr double kRecurrentCallBytes = 32 << 20;
// What the call of a classifier's loss may hold.
constexpr double kCallBytes = 8 << 20;
// Rows of a call over which the weights of many classes are read and their gradient is written.
constexpr int64_t kClassifierRows = 512;

// Tiles of a call that each thread multiplies by the weights it reads (cpu/winograd.h), and of how
// many threads: what more of them would have needs memory for whole samples.
constexpr int64_t kTilesPerThread = 48;
constexpr int kMostTileThreads = 4;

enum class Weight : uint8_t { kLight, kDense, kConvolution, kRecurrent };

Weight weight_of(const graph::Node& node) {
  switch (node.op->traits().work.family) {
    case OpFamily::kConvolution:
      return Weight::kConvolution;
    case OpFamily::kDense:
      return Weight::kDense;
    case OpFamily::kRecurrent:
      return Weight::kRecurrent;
    case OpFamily::kAttention:
    case OpFamily::kOther:
      break;
  }
  return Weight::kLight;
}

// Bytes of one sample in operands that have a batch dimension.
double sample_bytes(const Graph& graph, NodeId id) {
  double bytes = 0;
  const graph::Node& node = graph.node(id);
  const auto add = [&](graph::ValueId value) {
    const graph::ValueType& type = graph.value(value).type;
    if (type.shape.has_batch()) {
      bytes += static_cast<double>(row_bytes(type.dtype, type.shape).count());
    }
  };
  for (graph::ValueId value : node.inputs) add(value);
  for (graph::ValueId value : node.outputs) add(value);
  return std::max(bytes, 1.0);
}

double sample_flops(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  const std::vector<graph::ValueType> inputs = input_types(graph, id);
  const std::vector<graph::ValueType> outputs = output_types(graph, id);
  return std::max(node.op->flops_per_sample({node.attributes, inputs, outputs}), 1.0);
}

// The units of a dense layer or one of its gradients.
int64_t units_of(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  const OpPass pass = node.op->traits().work.pass;
  const graph::ValueId y = pass == OpPass::kForward     ? node.outputs[0]
                           : pass == OpPass::kGradInput ? node.inputs[0]
                                                        : node.inputs[1];
  const Shape& shape = graph.value(y).type.shape;
  return shape[shape.rank() - 1].count;
}

// The weights of a dense layer.
double weight_bytes(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  const bool gradient = node.op->traits().work.pass == OpPass::kGradKernel;
  const graph::ValueType& type = graph.value(gradient ? node.outputs[0] : node.inputs[1]).type;
  return static_cast<double>(tensor_bytes(type.dtype, type.shape, 1).count());
}

int64_t power_from(double least) {
  const auto whole = static_cast<uint64_t>(std::clamp(least, 1.0, double{kMostSamples}));
  const bool exact = static_cast<double>(whole) >= std::min(least, double{kMostSamples});
  return static_cast<int64_t>(std::bit_ceil(exact ? whole : whole + 1));
}

int64_t power_within(int64_t extent, double bytes_each, double limit) {
  while (extent > 1 && static_cast<double>(extent) * bytes_each > limit) extent /= 2;
  return extent;
}

}  // namespace

Blocks::Blocks(const CpuInfo& cpu, const KernelSetOptions& options, bool alone)
    : options_(options),
      cpu_options_{.isa = isa_of(cpu.isa),
                   .parts = options.parts,
                   .pairs = has_pairs(cpu.isa),
                   .alone = alone},
      caches_bytes_(static_cast<double>(cpu.l2_bytes.count()) * options.parts),
      last_cache_bytes_(static_cast<double>(cpu.l3_bytes.count())),
      pieces_from_(isa_of(cpu.isa) == Isa::kAvx512 && !alone ? 0
                                                             : most_units(isa_of(cpu.isa)) + 1) {}

int64_t Blocks::preferred_convolution(const Graph& graph, NodeId node) const {
  const double flops = sample_flops(graph, node);
  const double bytes = sample_bytes(graph, node);
  int64_t extent = power_from(kFlopsPerThread * options_.parts / flops);
  extent = power_within(extent, bytes, caches_bytes_ / 2);
  extent = std::max(extent, product_samples(graph, node));
  if (graph.node(node).op->traits().work.pass != OpPass::kGradKernel) return extent;
  const graph::ValueType& kernel = graph.value(graph.node(node).outputs[0]).type;
  const auto sum_bytes = static_cast<double>(tensor_bytes(kernel.dtype, kernel.shape, 1).count());
  const double bandwidth =
      2 * sum_bytes > last_cache_bytes_ / 2 ? kMemoryBytesPerSecond : kCacheBytesPerSecond;
  const double add_seconds = kAddPasses * sum_bytes / bandwidth;
  const double sample_seconds = flops / (kFlopsPerSecond * options_.parts);
  const int64_t wanted = power_from(add_seconds / (kAddShare * sample_seconds));
  return std::max(extent, power_within(wanted, bytes, kWeightGradientCallBytes));
}

int64_t Blocks::product_samples(const Graph& graph, NodeId node) const {
  const graph::OpWork work = graph.node(node).op->traits().work;
  const bool to_source = work.pass == OpPass::kGradInput && work.fusion == OpFusion::kNone;
  if (work.pass != OpPass::kForward && !to_source) return 1;
  std::vector<int64_t> extents;
  for (const graph::Axis& axis : axes_of(graph, node)) {
    extents.push_back(axis.extent.of_batch ? 1 : axis.extent.count);
  }
  const NodeFacts facts = node_facts(graph, node, 1, extents, {});
  if (is_heavy_convolution(facts, cpu_options_)) {
    return power_from(static_cast<double>(heavy_convolution_samples(facts, cpu_options_)));
  }
  if (!becomes_winograd_node(facts, cpu_options_)) return 1;
  const int most_parts = std::min(options_.parts, kMostTileThreads);
  const auto tiles = static_cast<double>(winograd_images(facts).tiles());
  return power_from(static_cast<double>(kTilesPerThread * most_parts) / tiles);
}

int64_t Blocks::preferred_dense(const Graph& graph, NodeId node) const {
  const double bytes = sample_bytes(graph, node);
  if (graph.node(node).op->traits().work.fusion == OpFusion::kLoss) {
    const Shape& x = graph.value(graph.node(node).inputs[0]).type.shape;
    const int64_t rows = x.elements_per_sample() / x[x.rank() - 1].count;
    const double samples = static_cast<double>(kClassifierRows) / static_cast<double>(rows);
    return power_within(power_from(samples), bytes, kCallBytes);
  }
  // Products of our own read weights and rows in pieces (cpu/packed_product.h), for which the last
  // cache will do.
  const bool pieces = pieces_from_ > 0 && units_of(graph, node) >= pieces_from_;
  const int64_t roomy =
      power_within(kMostDenseSamples, bytes, pieces ? caches_bytes_ : caches_bytes_ / 4);
  // Long rows: to the brim, since the weights they meet are as long.
  const double brim = std::max(caches_bytes_ * 7 / 8, pieces ? last_cache_bytes_ / 8 : 0);
  const int64_t least = power_within(pieces ? kLeastPackedRows : kLeastDenseRows, bytes, brim);
  return std::max({roomy, least, distant_weight_samples(graph, node)});
}

int64_t Blocks::distant_weight_samples(const Graph& graph, NodeId node) const {
  const double bytes = weight_bytes(graph, node);
  const bool far = is_far(bytes);
  if (!far && bytes * options_.parts <= caches_bytes_ / 4) return 1;
  const Shape& x = graph.value(graph.node(node).inputs[0]).type.shape;
  const int64_t rows = x.elements_per_sample() / std::max<int64_t>(x[x.rank() - 1].count, 1);
  if (rows <= 1) return 1;
  const double wanted = far ? kFarWeightRows : kDistantWeightRows;
  const int64_t samples = power_from(wanted / static_cast<double>(rows));
  return power_within(samples, sample_bytes(graph, node), kDistantWeightCallBytes);
}

int64_t Blocks::preferred_recurrent(const Graph& graph, NodeId node) const {
  const int64_t extent = power_from(static_cast<double>(kRecurrentRows * options_.parts));
  return power_within(extent, sample_bytes(graph, node), kRecurrentCallBytes);
}

int64_t Blocks::preferred(const Graph& graph, NodeId node) const {
  switch (weight_of(graph.node(node))) {
    case Weight::kConvolution:
      return preferred_convolution(graph, node);
    case Weight::kDense:
      return preferred_dense(graph, node);
    case Weight::kRecurrent:
      return preferred_recurrent(graph, node);
    case Weight::kLight:
      break;
  }
  return power_within(kMostSamples, sample_bytes(graph, node), caches_bytes_ / 2);
}

int64_t Blocks::find_ceiling(const Graph& graph, NodeId node, bool dense_only,
                             Ceilings& known) const {
  // Upwards over values with a batch dimension, up to the convolutions. Past a dense layer only
  // dense layers count. A visit comes up again when all that it waits for is known.
  struct Visit {
    NodeId node;
    bool dense_only;
  };
  const auto at = [&known](const Visit& visit) -> int16_t& {
    Ceiling& ceiling = known[visit.node.index()];
    return visit.dense_only ? ceiling.of_dense : ceiling.of_all;
  };
  const auto preferred_of = [&](NodeId heavy) {
    int16_t& own = known[heavy.index()].own;
    if (own == 0) own = static_cast<int16_t>(preferred(graph, heavy));
    return own;
  };
  std::vector<Visit> stack = {{node, dense_only}};
  while (!stack.empty()) {
    const Visit visit = stack.back();
    const size_t depth = stack.size();
    ++visits_;
    int16_t least = kMostDenseSamples;
    for (graph::ValueId input : graph.node(visit.node).inputs) {
      const graph::Value& value = graph.value(input);
      if (value.kind != graph::ValueKind::kNode || !value.type.shape.has_batch()) continue;
      const Weight weight = weight_of(graph.node(value.producer));
      if (weight == Weight::kDense || (weight == Weight::kConvolution && !visit.dense_only)) {
        least = std::min(least, preferred_of(value.producer));
      }
      if (weight == Weight::kConvolution) continue;
      const Visit above{value.producer, visit.dense_only || weight == Weight::kDense};
      if (at(above) == 0) {
        stack.push_back(above);
      } else {
        least = std::min(least, at(above));
      }
    }
    if (stack.size() > depth) continue;
    at(visit) = least;
    stack.pop_back();
  }
  return at({node, dense_only});
}

int64_t Blocks::limited(const Graph& graph, NodeId node, int64_t extent) const {
  if (extent <= 1) return extent;
  const bool dense_only = weight_of(graph.node(node)) == Weight::kDense;
  const std::shared_ptr<Memory> known = memory_of(graph);
  if (known) return std::min(extent, find_ceiling(graph, node, dense_only, known->ceilings));
  Ceilings fresh(graph.nodes.size());
  return std::min(extent, find_ceiling(graph, node, dense_only, fresh));
}

std::shared_ptr<const void> Blocks::remember(const Graph& graph) const {
  std::erase_if(remembered_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Memory>& place = remembered_[&graph];
  std::shared_ptr<Memory> known = place.lock();
  if (!known) {
    const size_t nodes = graph.nodes.size();
    known = std::make_shared<Memory>(
        Memory{Ceilings(nodes), std::vector<graph::Block>(nodes), std::vector<bool>(nodes)});
    place = known;
  }
  return known;
}

std::shared_ptr<Blocks::Memory> Blocks::memory_of(const Graph& graph) const {
  const auto found = remembered_.find(&graph);
  return found == remembered_.end() ? nullptr : found->second.lock();
}

graph::Block Blocks::block(const Graph& graph, NodeId node) const {
  const std::shared_ptr<Memory> memory = memory_of(graph);
  if (!memory) return find_block(graph, node);
  if (!memory->known[node.index()]) {
    memory->boxes[node.index()] = find_block(graph, node);
    memory->known[node.index()] = true;
  }
  return memory->boxes[node.index()];
}

graph::Block Blocks::find_block(const Graph& graph, NodeId node) const {
  BlockRule rule;
  rule.batch = preferred(graph, node);
  const Weight weight = weight_of(graph.node(node));
  if (weight == Weight::kLight || weight == Weight::kDense) {
    const bool far = weight == Weight::kDense && is_far(weight_bytes(graph, node));
    rule.batch = std::max(limited(graph, node, rule.batch),
                          far ? distant_weight_samples(graph, node) : int64_t{1});
  }
  rule.call_bytes = Bytes(int64_t{1} << 60);  // the extent has been halved already
  const int rows = graph::find_axis(axes_of(graph, node), graph::kRowsAxis);
  rule.any_rows = weight == Weight::kLight && rows >= 0 && reference_row_exact(graph, node, rows);
  return choose_block(graph, node, rule, options_);
}

}  // namespace plimsoll::backend::cpu
