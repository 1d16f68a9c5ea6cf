#pragma once

// A plan: for each program a tree of loops, and for each value in it a place in one arena.
//
//   program train batch=128                       time ──▶
//     loop L0 batch extent=128 slice=4            items of a loop body, then the next iteration
//       feed %0                                   fills this iteration's rows of an input
//       call conv1 (%0 %1) -> (%5)                as many kernel calls as blocks fit the iteration
//       encode positive_bits %5 -> %6             a smaller lossless form
//       begin t0 %6 -> %7  …  wait t0             a transfer; %6 and %7 live in between
//     end
//     call adam (%1 …) -> (%9)                    in place: %9 aliases %1
//     call write (%9) -> ()
//
// Everything is explicit, so that a validator needs no planner: each Call names the instances that
// it reads and writes. An *instance* is one copy of a value in memory: the value itself, a clone's
// recomputed copy, a saved form, a copy in the spill file. It lives in its *scope*, the innermost
// loop that holds all its uses (none: the program's root), and has the extent of one iteration of
// that loop on the axes that the loops around it cut: inside `loop batch slice=4` a (B, 10) value
// has 4 rows. Its memory is its own from the first item that writes it to the last that reads it;
// where the scope is outside of a loop that uses it, for the whole of that loop.
//
// Plans are data: equal plans compare equal, print to equal text, and parse back
// (plan/tree/text.h).

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/id.h"
#include "graph/ir.h"
#include "graph/kernel_catalog.h"
#include "graph/op.h"
#include "plan/core/loop_axis.h"

namespace plimsoll::plan {

struct InstanceTag;
struct LoopTag;
using InstanceId = Id<InstanceTag>;
using LoopId = Id<LoopTag>;

// Offsets of arena instances and scratch are multiples of this (a cache line).
inline constexpr Bytes kAlignment{64};

enum class Space : uint8_t {
  kArena,  // offset counts from the arena's start, after the state region
  kState,  // the memory of a state variable; offset and bytes are those of its StatePlacement
  kSpill,  // offset counts in the spill file; of a state variable that is placed there, its place
};

struct Instance {
  graph::ValueId value;
  std::string form;  // a form-encoding operator's name; empty: the plain value
  int copy = 0;      // 0: from the node itself; k: from the k-th clone
  Space space = Space::kArena;
  LoopId scope;  // invalid: the program's root
  Bytes offset;
  Bytes bytes;
  InstanceId in_place;  // the dead instance whose memory this one reuses; invalid: none
  friend bool operator==(const Instance&, const Instance&) = default;
};

// One node's computation over the rows of the current iteration, block by block.
struct Call {
  graph::NodeId node;
  int clone = 0;                    // 0: the node itself; k ≥ 1: its k-th recomputation
  std::vector<InstanceId> inputs;   // one per operand
  std::vector<InstanceId> outputs;  // one per result; invalid: dropped (nobody reads it)
  // Loops around the call bind to the node's axis of the loop's name. Where that is another axis:
  std::vector<std::pair<LoopId, std::string>> bindings;
  Bytes scratch_offset;
  Bytes scratch_bytes;
  friend bool operator==(const Call&, const Call&) = default;
};

// Encodes this iteration's rows of `source` into a saved form.
struct Encode {
  InstanceId source;
  InstanceId target;  // its `form` says how
  friend bool operator==(const Encode&, const Encode&) = default;
};

// Fills this iteration's rows of an input value from the input source.
struct Feed {
  InstanceId target;
  friend bool operator==(const Feed&, const Feed&) = default;
};

// Hands this iteration's rows of a program output to the output sink.
struct Output {
  InstanceId source;
  friend bool operator==(const Output&, const Output&) = default;
};

// The rows of a value that an iteration of the loops over this axis needs.
struct IterationRows {
  LoopAxis axis;
  graph::AxisUse use;  // of a loop's rows; it names the value's dimension
  friend bool operator==(const IterationRows&, const IterationRows&) = default;
};

// Starts a copy between memory and the spill file of this iteration's rows; both ends live until
// the wait of the same number, which stands later in the same loop body.
struct BeginTransfer {
  int number = 0;
  InstanceId source;
  InstanceId target;
  // Along axes where an iteration needs other rows than its producer's axes say: for readers with
  // windows or of another extent. One for each such axis, each of a dimension of its own.
  std::vector<IterationRows> rows = {};
  friend bool operator==(const BeginTransfer&, const BeginTransfer&) = default;
};
struct WaitTransfer {
  int number = 0;
  friend bool operator==(const WaitTransfer&, const WaitTransfer&) = default;
};

// A nested loop, by its place in ProgramPlan::loops.
struct Enter {
  LoopId loop;
  friend bool operator==(const Enter&, const Enter&) = default;
};

using Item = std::variant<Call, Encode, Feed, Output, BeginTransfer, WaitTransfer, Enter>;

// Iterations cover [0, slice), [slice, 2 slice), … of the rows of the loop around it on this axis
// (all rows where none is around it); the last iteration may be shorter. Over samples they start
// anew in each lane.
struct Loop {
  LoopAxis axis;       // calls bind by its name
  int64_t extent = 0;  // rows in all: the axis's whole extent, or the slice of the loop around it
  int64_t slice = 0;
  std::vector<Item> items;
  friend bool operator==(const Loop&, const Loop&) = default;
};

struct ProgramPlan {
  std::string name;
  int64_t batch = 1;
  int64_t lane = 0;                  // samples of a lane (graph/lanes.h); 0: the batch is one
  std::vector<graph::Block> blocks;  // per node of the graph
  std::vector<Instance> instances;
  std::vector<Loop> loops;  // in the order in which they are entered
  std::vector<Item> items;  // the root
  Bytes arena_bytes;        // shared arena that this program needs, without state
  friend bool operator==(const ProgramPlan&, const ProgramPlan&) = default;
};

// State variables lie in one region at the arena's start or in one at the spill file's, common to
// all programs. One in the file is brought in by transfers from an instance of its incoming value
// in kSpill, which nobody writes, and stored, after its state_write, into one of the value
// written:
//
//   begin t0 %0 -> %1     %0 w space=spill, %1 w: memory of its own
//   wait t0
//   call w/sgd (%1 …) -> (%2)
//   call w/write (%2) -> ()
//   begin t1 %2 -> %3     %3 w/sgd space=spill: the variable's new value
//   wait t1
struct StatePlacement {
  std::string name;
  Bytes offset;  // in its region
  Bytes bytes;
  Space space = Space::kState;  // or kSpill
  friend bool operator==(const StatePlacement&, const StatePlacement&) = default;
};

struct Plan {
  std::string kernel_set;
  int block_set = 0;
  int parts = 1;             // into which kernels cut their work
  int64_t lanes = 1;         // of every batch (graph/lanes.h)
  uint64_t fingerprint = 0;  // of the program set
  std::vector<StatePlacement> states;
  Bytes state_bytes;  // of those in the arena
  std::vector<ProgramPlan> programs;
  Bytes arena_bytes;  // state_bytes + the largest program's
  Bytes spill_bytes;
  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace plimsoll::plan
