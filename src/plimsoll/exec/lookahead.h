#pragma once

// Announces a program's transfers to the spill queue before its run comes to them.
//
// As many as the queue has room for; the queue reads as far ahead of the run as its buffer goes.
// Nothing is allocated after construction.

#include <vector>

#include "exec/iterations.h"
#include "exec/spill_queue.h"

namespace plimsoll::exec {

class Lookahead {
 public:
  Lookahead(const ProgramTables& tables, std::byte* arena, SpillQueue& queue)
      : cursor_(tables, arena), queue_(queue), announced_(queue.most_announced()) {}

  // A run begins.
  void start();
  // The next transfer of the run: what the queue calls it.
  size_t next();
  void announce();

 private:
  TransferCursor cursor_;
  SpillQueue& queue_;
  std::vector<size_t> announced_;  // a ring
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace plimsoll::exec
