#include <algorithm>

#include "exec/run.h"

// Feeds, drains, encodes and transfers.

namespace plimsoll::exec {

using plan::RowRange;

void Run::find_region(CopyTable& copy) {
  for (size_t d = 0; d < copy.rows.size(); ++d) {
    const CutTerm& rows = copy.rows[d];
    copy.region[d] =
        rows.source < 0
            ? RowRange{0, rows.extent}
            : plan::rows_of(rows.use, tables_.turns[static_cast<size_t>(rows.source)], rows.extent);
  }
}

// Of the first of this turn's rows, from the start of the arena or of the spill file.
int64_t Run::locate(const OperandTable& operand) const {
  int64_t at = operand.origin(tables_.turns);
  for (const CutTerm& cut : operand.cuts) {
    at += cut.offset(tables_.turns[static_cast<size_t>(cut.source)].begin);
  }
  return at;
}

void Run::feed(CopyTable& copy) {
  if (!context_.computes) return;
  find_region(copy);
  const bool batched = copy.sample_rows > 0;
  const int64_t begin = batched ? copy.region[0].begin / copy.sample_rows : 0;
  const int64_t count = batched ? copy.region[0].size() / copy.sample_rows : 1;
  context_.source->fill(copy.ends[0], begin, count, context_.arena + locate(copy.target));
}

void Run::drain(CopyTable& copy) {
  if (!context_.computes || context_.sink == nullptr) return;
  find_region(copy);
  const bool batched = copy.sample_rows > 0;
  const int64_t begin = batched ? copy.region[0].begin / copy.sample_rows : 0;
  const int64_t count = batched ? copy.region[0].size() / copy.sample_rows : 1;
  for (int output : copy.ends) {
    context_.sink->take(output, begin, count, context_.arena + locate(copy.source));
  }
}

void Run::encode(CopyTable& copy) {
  find_region(copy);
  const RowRange rows = copy.region.empty() ? RowRange{0, 1} : copy.region[0];
  auto encoder = copy.encoders.begin();
  while (!encoder->dims[0].empty() && encoder->dims[0][0] != rows.size()) ++encoder;
  encoder->inputs[0].data = context_.arena + locate(copy.source);
  encoder->outputs[0].data = context_.arena + locate(copy.target);
  const int64_t begin = rows.begin;
  const int64_t extent = rows.size();
  encoder->kernel->run({.inputs = encoder->inputs,
                        .outputs = encoder->outputs,
                        .scratch = nullptr,
                        .begin = {&begin, 1},
                        .extents = {&extent, 1},
                        .first = true,
                        .step = &context_.step});
}

void Run::begin_transfer(CopyTable& copy) {
  if (!context_.computes) return;
  find_region(copy);
  SpillRegion& region = context_.spill->region(context_.first_transfer + copy.transfer);
  const OperandTable& memory = region.to_file ? copy.source : copy.target;
  const OperandTable& file = region.to_file ? copy.target : copy.source;
  region.memory = context_.arena + locate(memory);
  region.offset = locate(file);
  if (copy.bits) {
    region.rows[0] = copy.sample_rows > 0 ? copy.region[0].size() / copy.sample_rows : 1;
  } else {
    for (size_t d = 0; d < copy.region.size(); ++d) region.rows[d] = copy.region[d].size();
  }
  context_.spill->begin(context_.first_transfer + copy.transfer);
}

}  // namespace plimsoll::exec
