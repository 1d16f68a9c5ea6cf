#pragma once

// Which rows an instance holds in one iteration of its scope, and which rows and blocks a call
// covers in one iteration of the loops around it.
//
// A loop binds to an axis of a node: to the one of the loop's name, or to the one that the call
// says. Of several loops around it that bind to one axis only the innermost counts, since its
// iterations lie inside the iteration of the others. Everything follows from two numbers per loop:
// the rows that its current iteration covers, counted from the start of the axis.
//
//   loop L0 batch extent=19 slice=8     iterations  [0,8)            [8,16)  [16,19)
//     loop L1 batch extent=8 slice=4    iterations  [0,4) [4,8)      …       [16,19)
//       %1 scope=L1  (B, 10)            rows        [0,4) [4,8)      …       [16,19)
//     end
//     %2 scope=L0  (4B, 10)             rows        [0,32)           [32,64) [64,76)
//
// An instance follows the node that computes its value, or its own axes where no node does
// (graph/value_axes.h); an input follows along others the nodes that read it. Saved forms and
// copies in the spill file have the rows of the value that they stand for. It does not ask whether
// a plan is right, but ids must exist (the validator's first question).

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/kernel_catalog.h"
#include "graph/op.h"
#include "graph/program.h"
#include "plan/core/plan.h"

namespace plimsoll::plan {

// Half-open.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// The axes of every node of a graph, worked out once.
using AxisTable = std::vector<std::vector<graph::Axis>>;
AxisTable find_all_axes(const graph::Graph& graph);

// The loop around each loop; invalid: the root.
std::vector<LoopId> find_parents(const ProgramPlan& plan);
// The innermost loop around `loop` of the same axis name; invalid where there is none.
LoopId find_outer_loop(const ProgramPlan& plan, std::span<const LoopId> parents, LoopId loop);

// The name of the axis that `loop` binds to in `call`; without a call, by its own name.
std::string_view find_bound_axis(const ProgramPlan& plan, LoopId loop, const Call* call);

// Rows of a dimension that rows of an axis need or make, clipped to the dimension.
RowRange rows_of(const graph::AxisUse& use, RowRange rows, int64_t extent);

// By value: partials of a sum over lanes, 1 of every other.
std::vector<int64_t> find_partials(const graph::Program& program, const AxisTable& axes);

// Samples of a lane in a loop over them; 0: it has none, or they are one lane.
int64_t lane_of(const ProgramPlan& plan, const Loop& loop);
// Iterations of a loop inside an iteration of the loop around it of the same axis ([0, extent)
// where there is none), in rising order: their number, and the one that begins at a row.
int64_t iteration_count(const Loop& loop, RowRange around, int64_t lane);
RowRange iteration_from(const Loop& loop, RowRange around, int64_t begin, int64_t lane);

// How one dimension of an instance follows the loops around its scope.
struct DimensionRule {
  LoopId loop;         // invalid: whole at every iteration
  graph::AxisUse use;  // of the loop's rows
  int64_t extent = 0;  // of the whole dimension
  friend bool operator==(const DimensionRule&, const DimensionRule&) = default;
};
using InstanceRule = std::vector<DimensionRule>;

// By instance.
std::vector<InstanceRule> find_instance_rules(const ProgramPlan& plan, const graph::Graph& graph,
                                              const AxisTable& axes);

// Rows per dimension; `iterations` holds the current rows of every loop of the plan.
std::vector<RowRange> instance_rows(const InstanceRule& rule, std::span<const RowRange> iterations);
// The most rows per dimension that any iteration has.
std::vector<int64_t> largest_rows(const InstanceRule& rule, const ProgramPlan& plan);
// Bytes of an instance of these rows. Saved forms hold one bit per element; a sample starts at a
// byte.
Bytes instance_bytes(const graph::ValueType& type, std::string_view form,
                     std::span<const int64_t> rows);

// For each axis of the call's node the innermost loop that binds to it; invalid: none, the whole
// axis. `around`: the loop that the call stands in, invalid for the root.
std::vector<LoopId> bind_loops(const ProgramPlan& plan, std::span<const LoopId> parents,
                               LoopId around, const Call& call, std::span<const graph::Axis> axes);

// Blocks of an axis that meet `rows`, clipped to them. Where rows is an iteration of a valid plan,
// it starts at a block and only a lane's or the axis's last block is shorter (row-exact axes
// aside). `lane`: the axis's rows in one lane; 0: blocks count from its start.
int64_t block_count(RowRange rows, int64_t block, int64_t lane);
RowRange block_rows(RowRange rows, int64_t block, int64_t lane, int64_t index);

}  // namespace plimsoll::plan
