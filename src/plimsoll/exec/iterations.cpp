#include "exec/iterations.h"

#include <algorithm>

namespace plimsoll::exec {
namespace {

using plan::RowRange;

// False where no row is left at or after `begin`.
bool start_iteration(const LoopTable& loop, size_t index, int64_t begin, Iterations& iterations) {
  const int64_t end =
      loop.outer < 0 ? loop.extent : iterations[static_cast<size_t>(loop.outer)].end;
  if (begin >= end) return false;
  int64_t next = std::min(begin + loop.slice, end);
  if (loop.lane > 0) next = std::min(next, (begin / loop.lane + 1) * loop.lane);
  iterations[index] = {begin, next};
  return true;
}

}  // namespace

size_t advance(const ProgramTables& tables, Iterations& iterations, const Step& step,
               size_t position) {
  const LoopTable& loop = tables.loops[step.index];
  if (step.kind == StepKind::kLoopBegin) {
    const int64_t first = loop.outer < 0 ? 0 : iterations[static_cast<size_t>(loop.outer)].begin;
    return start_iteration(loop, step.index, first, iterations) ? position + 1 : step.jump;
  }
  const int64_t begin = iterations[step.index].end;
  return start_iteration(loop, step.index, begin, iterations) ? step.jump : position + 1;
}

void find_region(const CopyTable& copy, const Iterations& iterations,
                 std::vector<RowRange>& region) {
  region.resize(copy.rows.size());
  for (size_t d = 0; d < copy.rows.size(); ++d) {
    const CutTerm& rows = copy.rows[d];
    region[d] =
        rows.source < 0
            ? RowRange{0, rows.extent}
            : plan::rows_of(rows.use, iterations[static_cast<size_t>(rows.source)], rows.extent);
  }
}

int64_t locate(const OperandTable& operand, const Iterations& iterations) {
  int64_t at = operand.origin(iterations);
  for (const CutTerm& cut : operand.cuts) {
    at += cut.offset(iterations[static_cast<size_t>(cut.source)].begin);
  }
  return at;
}

TransferCursor::TransferCursor(const ProgramTables& tables, std::byte* arena)
    : tables_(tables), arena_(arena), iterations_(tables.iterations.size()) {
  region_.reserve(find_most_dimensions(tables));
}

bool TransferCursor::ended() {
  while (position_ < tables_.steps.size()) {
    const Step& step = tables_.steps[position_];
    if (step.kind == StepKind::kBeginTransfer) return false;
    if (step.kind == StepKind::kLoopBegin && !tables_.loops[step.index].transfers) {
      position_ = step.jump;
    } else if (step.kind == StepKind::kLoopBegin || step.kind == StepKind::kLoopEnd) {
      position_ = advance(tables_, iterations_, step, position_);
    } else {
      ++position_;
    }
  }
  return true;
}

void TransferCursor::take(SpillRegion& region) {
  const CopyTable& copy = tables_.copies[tables_.steps[position_++].index];
  region = tables_.layouts[copy.transfer];
  find_region(copy, iterations_, region_);
  const OperandTable& memory = region.to_file ? copy.source : copy.target;
  const OperandTable& file = region.to_file ? copy.target : copy.source;
  region.memory = arena_ + locate(memory, iterations_);
  region.offset = locate(file, iterations_);
  if (copy.bits) {
    region.rows[0] = copy.sample_rows > 0 ? region_[0].size() / copy.sample_rows : 1;
  } else {
    for (size_t d = 0; d < region_.size(); ++d) region.rows[d] = region_[d].size();
  }
}

size_t find_most_dimensions(const ProgramTables& tables) {
  size_t most = 1;
  for (const CopyTable& copy : tables.copies) most = std::max(most, copy.rows.size());
  return most;
}

size_t find_most_open(const ProgramTables& tables) {
  size_t most = 0;
  size_t open = 0;
  for (const Step& step : tables.steps) {
    if (step.kind == StepKind::kBeginTransfer) most = std::max(most, ++open);
    if (step.kind == StepKind::kWaitTransfer) --open;
  }
  return most;
}

}  // namespace plimsoll::exec
