#include "backend/cpu/cost_model.h"

#include <algorithm>
#include <array>

#include "backend/cpu/conv/winograd.h"
#include "backend/cpu/node_facts.h"
#include "backend/cpu/threads/threads.h"
#include "graph/rank_message.h"
#include "ops/recurrent.h"

namespace plimsoll::backend::cpu {
namespace {

using graph::OpFamily;
using graph::OpFusion;
using graph::OpPass;

struct IsaRate {
  std::string_view isa;
  double flops_per_second;  // of one thread, in a large convolution
  double bf16 = 1.0;        // how many times as fast products of bfloat16 factors are
};
constexpr std::array<IsaRate, 7> kIsaRates = {{{"avx512_amx", 1.16e11, 6.0},
                                               {"avx512_bf16", 1.16e11, 1.7},
                                               {"avx512", 1.16e11},
                                               {"avx2", 5.5e10},
                                               {"neon_bf16", 2.5e10},
                                               {"neon", 2.5e10},
                                               {"sse2", 1.2e10}}};
constexpr double kOtherFlopsPerSecond = 2e9;
constexpr double kReferenceFlopsPerSecond = 1e9;

// Operands that lie in the last cache, per thread; in memory, all threads together.
constexpr double kCacheBytesPerSecond = 2.5e10;
constexpr double kMemoryBytesPerSecond = 2.4e10;
// What a thread reads of its own cache, where the weights of a recurrent layer lie while it steps.
constexpr double kOwnCacheBytesPerSecond = 9e10;
// Samples that each weight is multiplied by when it is read (cpu/product.h).
constexpr int64_t kRowsPerWeight = 4;
// A call's operands are in memory when they take more than this: the other calls of a loop's
// iteration use the cache too.
constexpr double kCachedShare = 0.25;
constexpr double kSecondsPerCall = 2e-7;
constexpr double kSecondsPerTeam = 1.5e-6;  // waking the other threads and waiting for them

constexpr double kSpillBytesPerSecond = 4e8;
constexpr double kSecondsPerSpill = 1e-4;

// Share of the peak rate that a family reaches.
double efficiency(const graph::OpWork& work, double channels) {
  const bool few = channels < 16;
  const bool pools = work.fusion == OpFusion::kPool;
  switch (work.family) {
    case OpFamily::kConvolution:
      if (work.pass == OpPass::kForward) return pools ? 0.85 : few ? 0.9 : 1.0;
      if (work.pass == OpPass::kGradInput) return pools ? 0.6 : 1.0;
      if (pools) return few ? 0.2 : 0.8;
      return few ? 0.58 : 0.92;
    case OpFamily::kDense:
      if (work.fusion == OpFusion::kLoss) return 0.8;
      return work.pass == OpPass::kForward ? 0.97 : 0.9;
    case OpFamily::kAttention:
      return 0.6;
    case OpFamily::kRecurrent:
      return 0.9;
    case OpFamily::kOther:
      break;
  }
  return 0.2;  // maps and sums: traffic decides, but for functions such as tanh
}

// How many times as fast Winograd's products are as those that they stand for
// (docs/design/0019-winograd.md).
constexpr double kWinogradRate = 1.65;

// Dense layers, convolutions and their gradients, whose first two operands are the factors.
bool multiplies_bfloat16(const NodeFacts& facts) {
  const OpFamily family = facts.work().family;
  if (family != OpFamily::kConvolution && family != OpFamily::kDense) return false;
  return facts.inputs.size() > 1 && facts.inputs[0].dtype == DType::kBFloat16;
}

// Samples of a call of a recurrent layer; each is one thread's. TimeDistributed folds steps into
// the batch.
int64_t sequences_of(const NodeFacts& facts, const ops::RecurrentLayout& layout) {
  return facts.samples() * facts.inputs[static_cast<size_t>(layout.z)].shape[0].count;
}

// How many of so many parts run at the same time: 8 parts take three threads three rounds.
int at_once(int parts, int threads) { return parts / ceil_div(parts, threads); }

}  // namespace

CostModel::CostModel(const CpuInfo& cpu, const KernelSetOptions& options, bool alone)
    : flops_per_thread_(kOtherFlopsPerSecond),
      last_cache_bytes_(
          static_cast<double>(std::max(cpu.l3_bytes, cpu.l2_bytes * options.threads).count())),
      own_cache_bytes_(2 * static_cast<double>(cpu.l2_bytes.count())),
      threads_(at_once(options.parts, options.threads)),
      options_{.isa = isa_of(cpu.isa),
               .parts = options.parts,
               .pairs = has_pairs(cpu.isa),
               .alone = alone} {
  for (const IsaRate& rate : kIsaRates) {
    if (rate.isa != cpu.isa) continue;
    flops_per_thread_ = rate.flops_per_second;
    bf16_ = rate.bf16;
  }
}

double CostModel::seconds(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                          std::span<const int64_t> extents, bool own) const {
  const graph::Attributes& attributes = graph.node(node).attributes;
  if (attributes.has(graph::kWaits)) return 0;  // the sums lie where they were begun
  const NodeFacts facts = node_facts(graph, node, batch, extents, {});
  double flops = facts.node->op->flops_per_sample(facts.types());
  for (size_t i = 0; i < facts.axes.size(); ++i) {
    // A batch axis counts samples; the others are shares of a sample's work.
    const Dim& extent = facts.axes[i].extent;
    const double whole = extent.of_batch ? 1.0 : static_cast<double>(extent.at(batch));
    flops *= static_cast<double>(extents[i]) / whole;
  }
  double bytes = 0;
  const auto add = [&](const graph::ValueType& type, int64_t elements) {
    const double each =
        type.dtype == DType::kBits ? 0.125 : static_cast<double>(element_bytes(type.dtype).count());
    bytes += static_cast<double>(elements) * each;
  };
  for (size_t i = 0; i < facts.inputs.size(); ++i) add(facts.inputs[i], facts.input_elements(i));
  for (size_t i = 0; i < facts.outputs.size(); ++i) {
    // What is received counts as little as where a sum is not under way, which has it as scratch.
    const bool room = attributes.has(graph::kUnderWay) && i + 2 == facts.outputs.size();
    if (!room) add(facts.outputs[i], facts.output_elements(i));
  }
  if (!own) {
    return kSecondsPerCall + flops / kReferenceFlopsPerSecond + bytes / kMemoryBytesPerSecond;
  }
  const double channels =
      facts.inputs.empty() || facts.inputs[0].shape.rank() == 0
          ? 1.0
          : static_cast<double>(facts.inputs[0].shape[facts.inputs[0].shape.rank() - 1].count);
  const bool team = threads_ > 1 && (bytes >= kBytesWorthATeam || flops >= 1e6);
  const double threads = team ? threads_ : 1;
  const double bandwidth = bytes > kCachedShare * last_cache_bytes_
                               ? kMemoryBytesPerSecond
                               : kCacheBytesPerSecond * threads;
  double rate = flops_per_thread_ * efficiency(facts.work(), channels) * threads;
  if (multiplies_bfloat16(facts)) rate *= bf16_;
  if (is_winograd(graph, node, batch, extents)) rate *= kWinogradRate;
  const double arithmetic =
      facts.work().family == OpFamily::kRecurrent ? recurrent_seconds(facts, flops) : flops / rate;
  return kSecondsPerCall + (team ? kSecondsPerTeam : 0.0) + std::max(arithmetic, bytes / bandwidth);
}

double CostModel::recurrent_seconds(const NodeFacts& facts, double flops) const {
  const ops::RecurrentLayout layout = ops::read_recurrent(facts.op(), facts.attributes);
  const int64_t sequences = sequences_of(facts, layout);
  const auto& z = facts.inputs[static_cast<size_t>(layout.z)].shape;
  const int64_t each = ceil_div(sequences, std::min<int64_t>(threads_, sequences));
  const double kernel_bytes = 4.0 * static_cast<double>(layout.gates * layout.units * layout.units);
  const double bandwidth =
      kernel_bytes > own_cache_bytes_ ? kCacheBytesPerSecond : kOwnCacheBytesPerSecond;
  const auto reads = static_cast<double>(z[1].count * ceil_div(each, kRowsPerWeight));
  const double share = static_cast<double>(each) / static_cast<double>(sequences);
  return reads * kernel_bytes / bandwidth +
         flops * share / (flops_per_thread_ * efficiency(facts.work(), 0));
}

bool CostModel::is_winograd(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                            std::span<const int64_t> extents) const {
  if (graph.node(node).op->traits().work.family != OpFamily::kConvolution) return false;
  return becomes_winograd_node(block_facts(graph, node, batch, extents, {}, {}), options_);
}

Bytes CostModel::cached() const {
  return Bytes(static_cast<int64_t>(kCachedShare * last_cache_bytes_));
}

double CostModel::memory_seconds(Bytes bytes) {
  return static_cast<double>(bytes.count()) / kMemoryBytesPerSecond;
}

double CostModel::copy_seconds(Bytes bytes) const {
  return static_cast<double>(bytes.count()) / kMemoryBytesPerSecond;
}

double CostModel::spill_seconds(Bytes bytes) {
  return kSecondsPerSpill + static_cast<double>(bytes.count()) / kSpillBytesPerSecond;
}

}  // namespace plimsoll::backend::cpu
