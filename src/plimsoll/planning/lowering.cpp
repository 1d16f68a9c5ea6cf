#include "planning/lowering.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/accounted.h"
#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "graph/lanes.h"
#include "graph/op.h"
#include "graph/verify.h"
#include "layers/training/batch_norm_groups.h"
#include "ops/fuse/fuse.h"
#include "ops/fuse/rank_messages.h"
#include "ops/registry.h"

namespace plimsoll::planning {
namespace {

backend::KernelSetOptions kernel_options(const PlanRequest& request, int block_set) {
  backend::KernelSetOptions options;
  options.parts = request.parts;
  options.threads = request.threads;
  options.block_set = block_set;
  return options;
}

// The graph with packed weights where the backend wants them.
graph::Graph with_packs(const graph::Graph& graph, const backend::Backend& backend) {
  const std::shared_ptr<const void> remembered = backend.catalog().remember(graph);
  std::vector<std::vector<ops::PackOffer>> offers(graph.nodes.size());
  bool any = false;
  for (size_t n = 0; n < offers.size(); ++n) {
    offers[n] = backend.packs(graph, graph::NodeId(n));
    any = any || !offers[n].empty();
  }
  if (!any) return graph;
  return ops::insert_packs(graph, ops::registry(), [&](const graph::Graph&, graph::NodeId node) {
    return offers[node.index()];
  });
}

}  // namespace

Lowering::Lowering(const layers::Model& model, const layers::CompileOptions& compile,
                   const layers::BatchSizes& batches, const PlanRequest& request)
    : request_(request),
      lanes_(request.lanes == 0 ? request.ranks.count : request.lanes),
      fused_(layers::build_programs(model, compile, own_sizes(batches))) {
  expect_lanes(layers::batch_norm_group(compile, batches));
  fuse(fused_, batches);
  if (!request.any_data || batches.train < 2 || batches.train_tail > 0) return;
  layers::BatchSizes with_tail = batches;
  with_tail.train_tail = batches.train - 1;
  tailed_ = layers::build_programs(model, compile, own_sizes(with_tail));
  fuse(*tailed_, with_tail);
}

void Lowering::expect_lanes(int64_t group) const {
  const int64_t lanes = lanes_;
  if (lanes < 1 || lanes > graph::kMostLanes ||
      !std::has_single_bit(static_cast<uint64_t>(lanes))) {
    throw Error(ErrorKind::kConfig, fmt::format("lanes: expected a power of two up to {}, received "
                                                "{}.",
                                                graph::kMostLanes, lanes));
  }
  if (lanes % request_.ranks.count != 0) {
    throw Error(ErrorKind::kConfig,
                fmt::format("lanes: expected a number that {} ranks divide, received {}. Name a "
                            "multiple of it with --lanes.",
                            request_.ranks.count, lanes));
  }
  if (lanes == 1 || group == 0) return;
  throw Error(ErrorKind::kConfig,
              fmt::format("lanes: expected 1 with statistics of slices of {} samples, received {}. "
                          "Leave out one of them.",
                          group, lanes));
}

layers::BatchSizes Lowering::own_sizes(const layers::BatchSizes& batches) const {
  if (request_.ranks.count == 1) return batches;
  layers::BatchSizes own = batches;
  for (int64_t* size : {&own.train, &own.train_tail, &own.evaluate, &own.evaluate_tail}) {
    if (*size > 0) *size = graph::batch_of(graph::share_of(*size, lanes_, request_.ranks));
  }
  return own;
}

// Predictions are made of whole batches.
void Lowering::share(layers::BuiltPrograms& built, const layers::BatchSizes& batches) const {
  if (request_.ranks.count == 1) return;
  const std::array<std::pair<std::string_view, int64_t>, 4> sizes = {
      {{"train", batches.train},
       {"train_tail", batches.train_tail},
       {"evaluate", batches.evaluate},
       {"evaluate_tail", batches.evaluate_tail}}};
  for (graph::Program& program : built.set.programs) {
    for (const auto& [name, samples] : sizes) {
      if (program.name == name) program.share = graph::share_of(samples, lanes_, request_.ranks);
    }
  }
}

void Lowering::fuse(layers::BuiltPrograms& built, const layers::BatchSizes& batches) const {
  ops::Offers offers = make_backend(0)->offers();
  // A gradient of several lanes is there when all of them are joined.
  if (lanes_ > 1) offers.dense_update = Bytes();
  share(built, batches);
  for (graph::Program& program : built.set.programs) {
    const int64_t samples = program.share ? program.share->samples : program.batch;
    program.graph = ops::fuse(program.graph, ops::registry(), offers, samples);
    program.lanes = lanes_;
  }
}

std::string training_fingerprint(const Lowered& lowered) {
  graph::ProgramSet train;
  const graph::ProgramSet& all = lowered.of_one ? *lowered.of_one : lowered.built.set;
  for (const graph::Program& program : all.programs) {
    if (program.name == "train" || program.name == "apply") train.programs.push_back(program);
  }
  // In how many lanes it is summed is told apart.
  for (graph::Program& program : train.programs) program.lanes = 1;
  return to_hex(graph::fingerprint(train));
}

Lowered Lowering::lower(int block_set, bool beside) const {
  Lowered lowered = lower(fused_, block_set);
  for (graph::Program& program : lowered.built.set.programs) {
    if (!beside || !program.share) continue;
    program.graph = ops::split_rank_sums(program.graph, ops::registry());
  }
  const std::optional<std::string> wrong = graph::verify(lowered.built.set);
  PLIMSOLL_CHECK(!wrong, wrong.value_or(""));
  return lowered;
}

std::optional<Lowered> Lowering::lower_with_tail(int block_set) const {
  if (!tailed_) return std::nullopt;
  return lower(*tailed_, block_set);
}

Lowered Lowering::lower(const layers::BuiltPrograms& fused, int block_set) const {
  Lowered made{{{}, fused.train_inputs, fused.predict_inputs, fused.metrics, fused.learning_rate},
               make_backend(block_set),
               {}};
  const bool shared = request_.ranks.count > 1;
  if (shared) made.of_one.emplace();
  for (const graph::Program& p : fused.set.programs) {
    graph::Graph packed = with_packs(p.graph, *made.backend);
    if (shared) {
      const int64_t samples = p.share ? p.share->samples : p.batch;
      made.of_one->programs.push_back({p.name, packed, samples, p.lanes});
    }
    if (p.share) {
      packed = ops::insert_rank_sums(packed, ops::registry(), p.share->samples);
    }
    made.built.set.programs.push_back({p.name, std::move(packed), p.batch, p.lanes, p.share});
  }
  if (shared) shard(made);
  return made;
}

void Lowering::shard(Lowered& made) const {
  const ops::ShardOptions options{.ranks = request_.ranks.count, .stage = request_.shard};
  made.sharded = ops::find_sharded_states(made.built.set, options);
  for (graph::Program& program : made.built.set.programs) {
    program.graph = ops::insert_shards(program.graph, ops::registry(), made.sharded, options);
    if (program.share) program.graph = ops::join_rank_sums(program.graph, ops::registry());
  }
}

std::unique_ptr<backend::Backend> Lowering::make_backend(int block_set) const {
  const std::string_view name =
      request_.backend.empty() ? backend::default_backend() : std::string_view(request_.backend);
  backend::KernelSetOptions options = kernel_options(request_, block_set);
  // Blocks of other layers that hold more than a group would hold several in every slice.
  const int64_t group = layers::batch_norm_group_of(fused_.set);
  if (group > 0) {
    const uint64_t most = std::bit_floor(static_cast<uint64_t>(group));
    options.caps.emplace_back(graph::kBatchAxis, static_cast<int64_t>(most));
  }
  return backend::make_backend(name, options);
}

bool all_ones(const graph::ProgramSet& set, const graph::KernelCatalog& catalog) {
  for (const graph::Program& program : set.programs) {
    const std::shared_ptr<const void> remembered = catalog.remember(program.graph);
    for (size_t i = 0; i < program.graph.nodes.size(); ++i) {
      const graph::Block block = catalog.block(program.graph, graph::NodeId(i));
      if (std::any_of(block.begin(), block.end(), [](int64_t n) { return n > 1; })) return false;
    }
  }
  return true;
}

Lowered lower(const layers::Model& model, const layers::CompileOptions& compile,
              const layers::BatchSizes& batches, const PlanRequest& request, int block_set) {
  const MemoryTag tag(MemoryPart::kSearch);
  return Lowering(model, compile, batches, request).lower(block_set);
}

}  // namespace plimsoll::planning
