#pragma once

// Where a run stands: the iterations of its loops, and what follows from them.
//
// Iterations are the caller's, so that a second walk may be ahead of the run. Nothing is allocated.

#include <vector>

#include "exec/tables.h"

namespace plimsoll::exec {

using Iterations = std::vector<plan::RowRange>;  // by loop

// The position after a loop's begin or end.
size_t advance(const ProgramTables& tables, Iterations& iterations, const Step& step,
               size_t position);

// Which rows of each dimension this iteration copies.
void find_region(const CopyTable& copy, const Iterations& iterations,
                 std::vector<plan::RowRange>& region);
// Says where the first of this iteration's rows lies, from the start of the arena or of the spill
// file.
int64_t locate(const OperandTable& operand, const Iterations& iterations);

// Finds the transfers of one run, in the order in which it will begin them.
class TransferCursor {
 public:
  TransferCursor(const ProgramTables& tables, std::byte* arena);

  // From the first step on again.
  void restart() { position_ = 0; }
  bool ended();
  // Sets the region to the next one's and goes on; `region` keeps its room. Not at the end.
  void take(SpillRegion& region);

 private:
  const ProgramTables& tables_;
  std::byte* arena_;
  Iterations iterations_;
  std::vector<plan::RowRange> region_;
  size_t position_ = 0;
};

// The most dimensions of a transfer, and the most that have begun and were not waited for.
size_t find_most_dimensions(const ProgramTables& tables);
size_t find_most_open(const ProgramTables& tables);

}  // namespace plimsoll::exec
