#include <algorithm>

#include "exec/run.h"

// Feeds, output items, encodes and transfers.

namespace plimsoll::exec {

using plan::RowRange;

int64_t Run::locate(const OperandTable& operand) const {
  return exec::locate(operand, tables_.iterations);
}

void Run::feed(CopyTable& copy) {
  if (!context_.computes) return;
  find_region(copy, tables_.iterations, copy.region);
  const bool batched = copy.sample_rows > 0;
  const int64_t begin = batched ? copy.region[0].begin / copy.sample_rows : 0;
  const int64_t count = batched ? copy.region[0].size() / copy.sample_rows : 1;
  context_.source->fill(copy.ends[0], begin, count, context_.arena + locate(copy.target));
}

void Run::output(CopyTable& copy) {
  if (!context_.computes || context_.sink == nullptr) return;
  find_region(copy, tables_.iterations, copy.region);
  const bool batched = copy.sample_rows > 0;
  const int64_t begin = batched ? copy.region[0].begin / copy.sample_rows : 0;
  const int64_t count = batched ? copy.region[0].size() / copy.sample_rows : 1;
  for (int output : copy.ends) {
    context_.sink->take(output, begin, count, context_.arena + locate(copy.source));
  }
}

void Run::encode(CopyTable& copy) {
  find_region(copy, tables_.iterations, copy.region);
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
  copy.queued = context_.ahead->next();
  context_.spill->begin(copy.queued);
  context_.ahead->announce();
}

void Run::wait_transfer(const CopyTable& copy) {
  if (!context_.computes) return;
  context_.spill->wait(copy.queued);
  context_.ahead->announce();
}

}  // namespace plimsoll::exec
