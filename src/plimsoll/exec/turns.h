#pragma once

// Where a run stands: the turns of its loops, and what follows from them.
//
// Turns are the caller's, so that a second walk may be ahead of the run. Nothing is allocated.

#include <vector>

#include "exec/tables.h"

namespace plimsoll::exec {

using Turns = std::vector<plan::RowRange>;  // by loop

// The position behind a loop's begin or end.
size_t advance(const ProgramTables& tables, Turns& turns, const Step& step, size_t position);

// Which rows of each dimension this turn copies.
void find_region(const CopyTable& copy, const Turns& turns, std::vector<plan::RowRange>& region);
// Of the first of this turn's rows, from the start of the arena or of the spill file.
int64_t locate(const OperandTable& operand, const Turns& turns);

// Finds the transfers of one run, in the order in which it will begin them.
class TransferCursor {
 public:
  TransferCursor(const ProgramTables& tables, std::byte* arena);

  // From the first step on again.
  void restart() { position_ = 0; }
  bool ended();
  // Of the next one, and goes on; `region` keeps its room. Not at the end.
  void take(SpillRegion& region);

 private:
  const ProgramTables& tables_;
  std::byte* arena_;
  Turns turns_;
  std::vector<plan::RowRange> region_;
  size_t position_ = 0;
};

// The most dimensions of a transfer, and the most that have begun and were not waited for.
size_t find_most_dimensions(const ProgramTables& tables);
size_t find_most_open(const ProgramTables& tables);

}  // namespace plimsoll::exec
