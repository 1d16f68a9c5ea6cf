#pragma once

// What ranks that share a training have in common, asked before the first step: what would give
// other bits, or let one wait for another for ever. Throws kConfig naming what differs, and both
// values.

#include <cstdint>
#include <string>

#include "base/ranks.h"
#include "train/checkpoint.h"
#include "train/session.h"

namespace plimsoll::run {

struct SharedRun {
  train::CheckpointHead head;
  std::string programs;   // Session::fingerprint(), where the head says nothing of them
  int shard = 0;          // the stage of sharding
  std::string files;      // that all ranks take part in writing, in words
  int64_t evaluated = 0;  // samples
  int64_t epochs = 0;
  int64_t steps = 0;
};
void expect_equal_runs(Ranks& ranks, const SharedRun& run);

// The state that begins after so many steps. Reads all that every rank holds; of what each has a
// part of, what there is in `from`, where the state was taken from (null: nowhere).
void expect_equal_state(Ranks& ranks, train::Session& session, TensorSource* from, int64_t steps);

}  // namespace plimsoll::run
