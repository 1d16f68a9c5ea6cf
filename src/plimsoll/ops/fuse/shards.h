#pragma once

// Sharding: state variables of which each rank holds a part, and the programs that then run.
//
//   x ─▶ dense_grad_kernel ─▶ rank_scatter ─▶ part of g ─┐
//   w ─────────────────────▶ rank_part ────▶ part of w ─┼▶ adam ─▶ part of w' ─▶ rank_whole ─▶ w'
//   m, v: parts, and nothing else ───────────────────────┘      └▶ parts of m', v'
//
// An update is one of elements, so each rank does it for its part of the elements, and the new
// parts of the weight are put together again. The bits are those of one process: what is summed
// over ranks is added in the same tree, and an update of an element knows no other one.
//
//   stage 1   slots of optimizers are parts. A gradient that only an update reads is never summed
//             whole: each rank adds up its part.
//   stage 2   gradients are parts where norms are taken of them, too, and where optimizers have no
//             slots: while they wait for the norm of all, each rank holds its part.
//
//   stage 3   weights are parts. They are put together before they are used, by groups of layers
//             one after another, forwards and then backwards; each group has loops over the batch
//             of its own, so that its weights are gone when those of the next one come.
//
// Adam on rows of a table takes the rows of its part out of what all ranks have read. Not sharded,
// because an element of theirs is not by itself: what optimizers of whole tensors hold (Lamb,
// Adafactor, Muon's matrices); and what has few elements.

#include <cstdint>
#include <string>
#include <vector>

#include "graph/op.h"
#include "graph/program.h"

namespace plimsoll::ops {

inline constexpr int kMostShardStage = 3;

struct ShardOptions {
  int64_t ranks = 1;
  int stage = 0;         // 0: nothing is sharded
  int64_t least = 4096;  // elements of a variable that is
};

// A state variable that is held in parts, and its type as a whole.
struct ShardedState {
  std::string name;
  graph::ValueType whole;
  friend bool operator==(const ShardedState&, const ShardedState&) = default;
};

// Those of a set of programs, by first appearance.
std::vector<ShardedState> find_sharded_states(const graph::ProgramSet& set,
                                              const ShardOptions& options);

// A program's graph with these variables in parts, after sums over ranks were put in.
graph::Graph insert_shards(const graph::Graph& graph, const graph::OpRegistry& registry,
                           const std::vector<ShardedState>& sharded, const ShardOptions& options);

}  // namespace plimsoll::ops
