#pragma once

// What ranks that share a training have in common, asked before the first step: what would give
// other bits, or let one wait for another for ever. Throws kConfig naming what differs, and both
// values.

#include <cstdint>

#include "base/ranks.h"
#include "base/tensor_io.h"
#include "train/checkpoint.h"

namespace plimsoll::run {

struct SharedRun {
  train::CheckpointHead head;
  int64_t evaluated = 0;  // samples
  int64_t epochs = 0;
  int64_t steps = 0;
};
void expect_equal_runs(Ranks& ranks, const SharedRun& run);

// The state that begins after so many steps. Reads all of it.
void expect_equal_state(Ranks& ranks, TensorSource& state, int64_t steps);

}  // namespace plimsoll::run
