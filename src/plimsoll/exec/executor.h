#pragma once

// Runs any valid plan on a backend in one arena.
//
//   guard │ state │ shared by all programs, one at a time ……………… │ guard
//
// Construction validates nothing (the validator did), reserves the arena, makes every kernel for
// block and tail, and lays out every call, so that running a step allocates nothing and throws
// nothing of its own; errors of the input source and of the spill file come out of run(). The arena
// is reserved and untouched until a step touches it. It is mapped so that transparent huge pages
// never reach beyond it.
//
// A program that runs again with no other in between, and no state variable written, does not make
// again what its first run left in memory that nothing else of it has: packed weights that it does
// not change (plan/tree/lasting_packs.h).

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "backend/kernel/kernel.h"
#include "base/tensor_io.h"
#include "base/work_sharing.h"
#include "graph/program.h"
#include "plan/core/plan.h"

namespace plimsoll::exec {

struct ExecutorOptions {
  // Fills the arena with a pattern and checks after each call that bytes outside the live buffers
  // are as they were: finds kernels that write beyond their operands. For tests: slow.
  bool poison = false;
  bool times = false;                // how long each step takes
  std::string spill_directory = {};  // needed by plans with spill_bytes > 0
  Bytes spill_buffer = {};           // for transfers on their way; the least there is: a MiB
};

class StepTimes;

// The threads that kernels of this host thread run on, for reading samples between kernels.
WorkSharing kernel_threads(int threads);

class Executor {
 public:
  // Keeps references: programs, plan and backend outlive it.
  Executor(const graph::ProgramSet& programs, const plan::Plan& plan, backend::Backend& backend,
           const ExecutorOptions& options = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Runs one program once. `source` feeds inputs, `sink` takes outputs; either may be null where
  // the program has none.
  void run(size_t program, const backend::StepContext& step, InputSource* source, OutputSink* sink);

  // The memory of a state variable that lies in the arena. Throws kConfig for an unknown name.
  std::span<std::byte> state(std::string_view name);
  // The same for reading alone; empty: it lies in the spill file.
  std::span<const std::byte> state_to_read(std::string_view name) const;
  // Bytes [begin, begin + size) of a state variable wherever it lies; between runs. Throw kConfig
  // for an unknown name, kIo. (Without computing there is no spill file: what is read from it is
  // zero.)
  void read_state(std::string_view name, int64_t begin, std::span<std::byte> destination);
  void write_state(std::string_view name, int64_t begin, std::span<const std::byte> source);

  // All of it, for measuring what was touched.
  std::span<const std::byte> arena() const;
  // Bytes reserved (the plan's), and resident pages of it now, from the kernel's own accounting.
  Bytes arena_bytes() const;
  Bytes measured_arena_bytes() const;
  // Bytes of the arena's pages in which state or a value of the programs that ran lies: the least
  // that measured_arena_bytes() is, since kernels need not touch all of their scratch.
  Bytes arena_values_bytes() const;
  // Null where the options did not ask for it.
  const StepTimes* times(size_t program) const;
  // Times of all programs begin anew. Between runs.
  void forget_times();
  // Bytes of call tables outside of the arena; kernels count in Backend::resident_bytes.
  Bytes overhead_bytes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::exec
