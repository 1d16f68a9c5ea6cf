#pragma once

// How much memory the whole process takes at its peak, before it takes it.
//
//   engine        binary, libraries, their heap, thread stacks: a constant of the backend
//   kernels       code and descriptors of the kernels of these programs
//   structures    model, graphs, plan and call tables
//   data          buffers of the data sources
//   ahead         buffers that they read ahead into, of what the limit leaves over
//   spill         of the spill file: its buffer and its thread
//   exchange      the library that ranks exchange by: a reading, made when they joined
//   page tables   of the arena
//   arena         state + everything that the plan placed (exact)
//
// In a process that is somebody else's there is one part more:
//
//   given         what the process held before us: a reading that the host makes once and passes in
//
// The limit is then for what is left of it, and that the limit holds and the prediction is true is
// said of our share, the rest (at most 2 % and 7 MiB too high). Nobody trims a host's heap: what
// the search for a plan has freed counts among the structures for as long as we are there. What is
// given is not ours to watch: if the host takes more later on, or gives some back, so does the
// process.
//
// Start-up has a peak of its own, before the arena is touched, where the program is loaded, the
// plan searched or the kernels made: a small run never takes less.
//
// All but the arena is a deterministic function of programs and data, never of the limit or of a
// reading of ours, so that equal questions get equal answers; the constants are upper bounds,
// measured with tests/cli/test_memory_prediction.py, which fails when one of them is passed or is
// too generous.

#include <vector>

#include "backend/kernel/kernel.h"
#include "base/bytes.h"
#include "graph/program.h"
#include "report/plan_summary.h"

namespace plimsoll::planning {

// Everything outside of the arena and its page tables.
struct ProcessOverhead {
  Bytes engine;
  Bytes kernels;
  Bytes structures;
  Bytes data;
  Bytes ahead;
  Bytes exchange{};
  Bytes spill;     // of the spill file, where the plan has one: its buffer, and spill_tables()
  Bytes start_up;  // not part of the total: the peak is the larger of the two
  Bytes search;    // of start_up: what the search for a plan holds
  Bytes given;     // not part of the total, and no part of ours
  Bytes total() const { return engine + kernels + structures + data + ahead + exchange + spill; }
  friend bool operator==(const ProcessOverhead&, const ProcessOverhead&) = default;
};

// Tables and kernel objects of a call of the plan that computes again: measured.
inline constexpr Bytes kBytesPerClone{8 << 10};

// What each part of the memory (base/accounted.h) may take, by name: bounds that tests hold
// allocations against. Files are read before the arena is touched, or in pieces.
std::vector<report::MemoryPart> accounted_parts(const ProcessOverhead& overhead, Bytes arena);

// What opening the data sources takes, before the engine starts.
struct DataOpening {
  Bytes peak;  // the most that it held, for a while
  Bytes held;  // tables and dictionaries that stay
  friend bool operator==(const DataOpening&, const DataOpening&) = default;
};

// Buffers of a run's data sources.
struct DataMemory {
  Bytes held;
  Bytes ahead{};          // that they want beyond it to read ahead, where the limit leaves it over
  DataOpening opening{};  // what opening them took
  friend bool operator==(const DataMemory&, const DataMemory&) = default;
};

// What is held by others than programs and backend.
struct HeldBeside {
  DataMemory data{};
  Bytes given{};          // what the process held before (zero: it is ours)
  Bytes exchange{};       // what the library of the ranks has taken
  Bytes saved_plan{};     // the text of a plan that is read and not searched for (zero: none)
  Bytes times{};          // measured ones, until a plan is chosen
  bool profiled = false;  // the steps' times are kept (exec/step_times.h)
};

// Without reading ahead.
ProcessOverhead process_overhead(const graph::ProgramSet& programs, const backend::Backend& backend,
                                 const HeldBeside& held);

// What to pass as given: process memory now, but for the pages of our code and of the vendor's
// library, which count as the engine; both are cut (base/pages/code_pages.h). For a host, once,
// before the first session. Throws kIo.
Bytes read_given();

// With the clones of a plan, which the search counts as part of the arena: what it asks for with
// `counted` and the run with `arena` is one size.
ProcessOverhead with_clones(ProcessOverhead overhead, Bytes arena, Bytes counted);

// What so many searches before this one leave in heap and library pages: for other block sets, and
// for other stages of sharding.
void add_searches_before(int count, ProcessOverhead& overhead);

// What a spill file takes beside its buffer: threads, and the tables of transfers of state.
Bytes spill_tables(const graph::ProgramSet& programs);

// Page tables and rounding of an arena of that size.
Bytes page_tables_of(Bytes arena);

// Process memory with an arena of that size, and the largest arena within a limit (may be ≤ 0).
Bytes process_bytes(const ProcessOverhead& overhead, Bytes arena);
Bytes arena_within(const ProcessOverhead& overhead, Bytes limit);

// A frontier of arenas as one of processes: below what starting takes the faster plan alone counts.
std::vector<plan::FrontierPoint> process_frontier(const ProcessOverhead& overhead,
                                                  std::vector<plan::FrontierPoint> arenas);

// The lines of `plimsoll plan`; they add up to process_bytes (what start-up takes beyond the rest
// is a line of its own).
std::vector<report::MemoryPart> memory_parts(const ProcessOverhead& overhead, Bytes state,
                                             Bytes arena);

}  // namespace plimsoll::planning
