#pragma once

// Times kernels of some programs as they are, outside of any plan: one call at a time, on operands
// of its own.
//
// Contents are small positive numbers in floating operands and zeros in all others, so that no
// index leaves its table. Each call runs a few times and the least is taken. Operands of nodes that
// have no batch (optimizer updates) are out of the caches, as they are in a step; those of the
// others were touched just before, as the iteration of a loop has them.

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "backend/kernel/kernel.h"
#include "backend/kernel/kernel_times.h"
#include "graph/program.h"

namespace plimsoll::exec {

struct TuningOptions {
  // The most bytes that operands, scratch and buffers take at once; a kernel that needs more is
  // left out.
  Bytes room;
  // What is done now, a few times in all; may be empty.
  std::function<void(const std::string&)> tell = {};
};

// Every kernel of the programs (but for those that only begin a run) at the extents of its block,
// of the batch's last one, and, where rows are exact, of powers of two below. New times stand in
// for old ones.
void time_kernels(const graph::ProgramSet& programs, backend::Backend& backend,
                  const TuningOptions& options, backend::KernelTimes& times);

// What all kernels took that have one rate (backend/kernel/kernel_times.h).
struct RateSum {
  double measured = 0;   // seconds
  double estimated = 0;  // seconds, by the backend's table
};
using RateSums = std::map<uint64_t, RateSum>;

// Adds what these programs' kernels take at their blocks, each a few times. Kernels that are not
// reached within `seconds` are left out.
void rate_kernels(const graph::ProgramSet& programs, backend::Backend& backend, Bytes room,
                  double seconds, RateSums& sums);
// The machine's rates: measured over estimated seconds, rounded.
void set_rates(const RateSums& sums, backend::KernelTimes& times);

// From memory to memory, past the caches where there is room.
double measure_copying(Bytes room);

// What so many threads read and write together of memory that is in no cache.
double measure_streaming(Bytes room, int threads);

// A spill file of `bytes` in `folder`, written and read past the page cache. Throws kIo.
backend::DiskSpeed measure_disk(const std::string& folder, Bytes bytes);

}  // namespace plimsoll::exec
