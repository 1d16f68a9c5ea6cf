#pragma once

// The schedules that the search tries, and what a schedule is called.
//
// Slices are the smallest that the blocks allow, times 1, 2, 4, … up to the whole batch; inner
// loops are tried at the smallest slices only, since larger ones would undo them.

#include <span>
#include <string>
#include <vector>

#include "plan/tree/cuts.h"
#include "plan/tree/loop_nest.h"

namespace plimsoll::plan {

// How every phase is cut.
using Shapes = std::vector<PhaseShape>;

// The smallest slices first, doubling; the last one has no loops.
std::vector<Shapes> make_flat_shapes(const ProgramFacts& facts, const Dependencies& dependencies,
                                     std::span<const std::vector<graph::NodeId>> slots);
// The smallest slices with inner loops, every nesting first; empty where all blocks are alike.
std::vector<Shapes> make_nested_shapes(const ProgramFacts& facts, const Dependencies& dependencies,
                                       std::span<const std::vector<graph::NodeId>> slots);

// Checkpointing: the forward nodes fall into so many segments of equal length; only what crosses
// from one to the next is kept for the way back, all else is computed again. Empty where there is
// no way back.
std::vector<Cut> make_checkpoints(const ProgramFacts& facts, const Dependencies& dependencies,
                                  size_t segments);

// Every cut of a node's value after the first of its readers: computed again, and kept in a
// smaller form where the reader accepts one.
std::vector<Cut> find_all_cuts(const ProgramFacts& facts, const Dependencies& dependencies);

// Checkpointing where loops over the batch are cut by totals: every loop on the way back computes
// again, slice by slice, what it needs of its own segment, so that nothing but the checkpoints and
// what crosses from loop to loop has all rows. Segments begin where least crosses, near equal
// lengths. `tree` is the plan without cuts; empty where it has no loops on the way back.
struct LoopCheckpoints {
  size_t segments = 1;
  // The share of the bytes that are not checkpoints: so many are given up, those first that are
  // made fastest for their bytes.
  double share = 1.0;
};
std::vector<Cut> make_loop_checkpoints(const ProgramPlan& tree, ProgramFacts& facts,
                                       const Dependencies& dependencies,
                                       const LoopCheckpoints& how);

size_t count_forward(const ProgramFacts& facts);
// The bytes of what the optimizer reads: gradients of weights, which deferred updates may keep to
// the end.
Bytes find_gradient_bytes(const ProgramFacts& facts);
// √n of the n forward nodes, 1 at least.
size_t count_root_segments(const ProgramFacts& facts);

// "whole batch", "slices of 4", "slices of 4 to 16, loops of 2 inside", "slices of 64, nested";
// along an axis of no samples "images in slices of 8 to 64 rows".
std::string describe_shapes(const Shapes& shapes, const LoopAxis& axis, int64_t batch);
// ", 3 values as bits, 12 values computed again"; empty where there is nothing of the kind.
std::string describe_cuts(const ProgramPlan& plan);

}  // namespace plimsoll::plan
