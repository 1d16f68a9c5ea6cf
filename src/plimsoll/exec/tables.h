#pragma once

// A program's plan flattened for running: a list of steps and tables that the steps point into.
//
// Everything that a step needs is worked out once: kernels for every shape of call that occurs,
// where each operand's rows lie as a function of the loops' iterations, and room for all that a
// call hands to its kernel. Running the list allocates nothing.
//
//   steps   loop L0 ─ feed 0 ─ call 0 ─ call 1 ─ end L0 (back to feed 0) ─ call 2

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/kernel/kernel.h"
#include "exec/spill_region.h"
#include "graph/lanes.h"
#include "graph/program.h"
#include "plan/core/extents.h"
#include "plan/core/plan.h"

namespace plimsoll::exec {

// One dimension of an instance's memory that follows an axis of a call, or a loop.
struct CutTerm {
  int source = 0;  // index of the axis or loop
  graph::AxisUse use;
  int64_t extent = 0;  // of the dimension
  int64_t unit = 1;    // rows that lie in one stride (the rows of a sample of packed bits)
  int64_t stride = 0;  // bytes

  // Bytes from row 0 of the dimension to the first row that rows from `begin` need.
  int64_t offset(int64_t begin) const {
    const int64_t row = begin * use.stride - use.before;
    return (row > 0 ? row : 0) / unit * stride;
  }
};

// An operand: instance memory, and how to find the rows of an iteration in it.
struct OperandTable {
  plan::InstanceId instance;   // invalid: dropped
  int64_t offset = 0;          // of the instance, from the start of the arena or of the spill file
  std::vector<CutTerm> scope;  // by loop: the first rows that the instance holds in this iteration
  std::vector<CutTerm> cuts;   // by axis of the call, or by loop where there is no call

  // Where row 0 of the value would lie in this iteration.
  int64_t origin(const std::vector<plan::RowRange>& iterations) const {
    int64_t at = offset;
    for (const CutTerm& term : scope) {
      at -= term.offset(iterations[static_cast<size_t>(term.source)].begin);
    }
    return at;
  }
};

// A kernel for calls of one shape, with its operands but for their addresses.
struct KernelTable {
  std::unique_ptr<backend::Kernel> kernel;
  std::vector<std::vector<int64_t>> dims;     // inputs, then outputs
  std::vector<std::vector<int64_t>> strides;  // likewise
  std::vector<backend::Operand> inputs;
  std::vector<backend::Operand> outputs;
};

// One axis of a call.
struct CallAxis {
  int loop = -1;  // innermost loop that binds to it; −1: none
  int64_t extent = 0;
  int64_t block = 0;
  int64_t lane = 0;  // rows in one lane; 0: not cut there
  bool falling = false;
  bool sum = false;  // reduce or scan: a call's `first` looks at it
  // Shapes of a block along this axis: its rows, and those of every operand (inputs, then outputs;
  // −1 where the operand does not have the axis), which are fewer where an edge clips a window.
  struct Shape {
    int64_t rows = 0;
    std::vector<int64_t> operand_rows;
    std::vector<int64_t> clipped;  // rows of each operand that the edge takes off in front
    int64_t begin = 0;             // of the first such block; others may stand elsewhere
    friend bool operator==(const Shape& a, const Shape& b) {
      return a.rows == b.rows && a.operand_rows == b.operand_rows && a.clipped == b.clipped;
    }
  };
  std::vector<Shape> shapes;
  bool clipped = false;  // shapes of equal rows differ in what the edges take off
  size_t multiple = 1;   // of the position in CallTable::kernels
};

// An output that is summed lane by lane.
struct LaneSum {
  size_t output = 0;
  int64_t partial = 0;                                  // bytes from one partial to the next
  std::vector<std::unique_ptr<backend::Kernel>> joins;  // as CallTable::kernels
};

struct CallTable {
  const plan::Call* call = nullptr;
  enum class Kind : uint8_t { kKernel, kView, kStateWrite } kind = Kind::kKernel;
  std::vector<CallAxis> axes;
  std::vector<OperandTable> inputs;
  std::vector<OperandTable> outputs;
  std::vector<KernelTable> kernels;
  std::vector<LaneSum> sums;
  int batch_axis = -1;  // where there are sums by lanes
  int64_t scratch = 0;  // from the start of the arena
  int64_t state = 0;    // kStateWrite: the variable's memory, from the start of the arena
  Bytes state_bytes;
  // These are of the call under way.
  std::vector<int64_t> origins;  // inputs, then outputs
  std::vector<plan::RowRange> windows;
  std::vector<int64_t> block;  // position of the block on each axis, from the window's first
  std::vector<int64_t> begin;
  std::vector<int64_t> extents;
};

// This iteration's rows of a value, outside of any call: feed, output item, encode, transfer.
struct CopyTable {
  OperandTable source;
  OperandTable target;
  // Rows of dimension d that this iteration covers follow loop rows[d].source (−1: all of them).
  std::vector<CutTerm> rows;
  std::vector<int> ends;  // of the program: the input that is fed, the outputs that are handed out
  int64_t sample_rows = 0;             // rows of dimension 0 in one sample; 0: no batch dimension
  bool bits = false;                   // of the target
  size_t transfer = 0;                 // in ProgramTables::layouts
  size_t queued = 0;                   // what the spill queue calls the one under way
  std::vector<KernelTable> encoders;   // one per number of rows
  std::vector<plan::RowRange> region;  // of the iteration under way
};

struct LoopTable {
  int outer = -1;  // the loop around it of the same axis
  int64_t extent = 0;
  int64_t slice = 0;
  int64_t lane = 0;        // rows in one lane; 0: iterations start from the axis's start
  bool transfers = false;  // some begin inside
};

enum class StepKind : uint8_t {
  kCall,
  kFeed,
  kOutput,
  kEncode,
  kBeginTransfer,
  kWaitTransfer,
  kLoopBegin,
  kLoopEnd,
};

struct Step {
  StepKind kind = StepKind::kCall;
  size_t index = 0;      // in calls, copies or loops
  size_t jump = 0;       // kLoopBegin: after the loop's end; kLoopEnd: the first step of the body
  int64_t number = 0;    // on the line of time (plan/facts/liveness.h)
  bool lasting = false;  // what it makes is there still in the next run (plan/tree/lasting_packs.h)
};

struct ProgramTables {
  std::vector<Step> steps;
  std::vector<CallTable> calls;
  std::vector<CopyTable> copies;
  std::vector<LoopTable> loops;
  std::vector<plan::RowRange> iterations;  // of each loop, while it runs
  std::vector<SpillRegion> layouts;        // per transfer of the program
  Bytes overhead() const;
};

struct TableContext {
  const graph::Program& program;
  const plan::Plan& plan;
  const plan::ProgramPlan& program_plan;
  backend::Backend& backend;
};
ProgramTables build_tables(const TableContext& context);

}  // namespace plimsoll::exec
