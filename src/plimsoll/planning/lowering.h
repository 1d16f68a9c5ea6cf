#pragma once

// Programs as a backend runs them: fused, with packed weights.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/kernel/backends.h"
#include "layers/training/programs.h"
#include "ops/fuse/shards.h"
#include "planning/request.h"

namespace plimsoll::planning {

// Programs lowered for a backend: fused, with packed weights.
struct Lowered {
  layers::BuiltPrograms built;
  std::unique_ptr<backend::Backend> backend;
  // Where ranks share steps: what one process would train by, whose fingerprint checkpoints have.
  std::optional<graph::ProgramSet> of_one{};
  // What they hold in parts, in the programs' state variables.
  std::vector<ops::ShardedState> sharded{};
};

// It is of what one process would train by, whatever the lanes are.
std::string training_fingerprint(const Lowered& lowered);

// A model's programs, built and fused once for all block sets: those differ in packed weights only.
class Lowering {
 public:
  // `request` outlives it.
  Lowering(const layers::Model& model, const layers::CompileOptions& compile,
           const layers::BatchSizes& batches, const PlanRequest& request);

  // `beside`: what ranks exchange goes on beside what is computed (ops/fuse/fuse.h).
  Lowered lower(int block_set, bool beside = false) const;
  // The same with the programs of a short last batch, where the request has no data that would tell
  // whether there is one; none: it has, or batches of one sample have no tail.
  std::optional<Lowered> lower_with_tail(int block_set) const;

 private:
  std::unique_ptr<backend::Backend> make_backend(int block_set) const;

  const PlanRequest& request_;
  int64_t lanes_;
  layers::BuiltPrograms fused_;
  std::optional<layers::BuiltPrograms> tailed_;

  void expect_lanes(int64_t batch_norm_group) const;
  // The sizes that this rank's programs have, and what is told apart of them afterwards.
  layers::BatchSizes own_sizes(const layers::BatchSizes& batches) const;
  void share(layers::BuiltPrograms& built, const layers::BatchSizes& batches) const;
  void fuse(layers::BuiltPrograms& built, const layers::BatchSizes& batches) const;
  Lowered lower(const layers::BuiltPrograms& fused, int block_set) const;
  void shard(Lowered& made) const;
};

Lowered lower(const layers::Model& model, const layers::CompileOptions& compile,
              const layers::BatchSizes& batches, const PlanRequest& request, int block_set);

// Whether every block of a set of programs is a single place: no smaller blocks are left.
bool all_ones(const graph::ProgramSet& set, const graph::KernelCatalog& catalog);

}  // namespace plimsoll::planning
