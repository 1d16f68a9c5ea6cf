#include "exec/run.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace plimsoll::exec {

using plan::RowRange;

Run::~Run() {
  if (context_.spill != nullptr) context_.spill->abandon();
  // Only what an error has left: a step waits for all that it begins.
  Ranks* const ranks = context_.step.ranks;
  if (ranks != nullptr && ranks->is_under_way()) ranks->abandon();
}

void Run::run() {
  if (context_.ahead != nullptr) context_.ahead->start();
  size_t position = 0;
  while (position < tables_.steps.size()) {
    const Step& step = tables_.steps[position];
    if (step.kind == StepKind::kLoopBegin || step.kind == StepKind::kLoopEnd) {
      const size_t next = advance(tables_, tables_.iterations, step, position);
      const bool left = step.kind == StepKind::kLoopEnd && next == position + 1;
      if (left && context_.poison != nullptr) context_.poison->after(step, tables_);
      position = next;
      continue;
    }
    if (context_.again && step.lasting) {
      ++position;
      continue;
    }
    if (context_.poison != nullptr) context_.poison->before(step, tables_);
    if (context_.times != nullptr) context_.times->begin_step();
    work(step);
    go_on();
    if (context_.times != nullptr) context_.times->end_step(position);
    if (context_.poison != nullptr) context_.poison->after(step, tables_);
    ++position;
  }
  if (context_.spill != nullptr) context_.spill->finish();
}

// What ranks exchange beside this goes on.
void Run::go_on() {
  if (context_.step.ranks != nullptr) context_.step.ranks->go_on();
}

void Run::work(const Step& step) {
  switch (step.kind) {
    case StepKind::kCall:
      run_call(tables_.calls[step.index]);
      break;
    case StepKind::kFeed:
      feed(tables_.copies[step.index]);
      break;
    case StepKind::kOutput:
      output(tables_.copies[step.index]);
      break;
    case StepKind::kEncode:
      encode(tables_.copies[step.index]);
      break;
    case StepKind::kBeginTransfer:
      begin_transfer(tables_.copies[step.index]);
      break;
    case StepKind::kWaitTransfer:
      wait_transfer(tables_.copies[step.index]);
      break;
    default:
      break;
  }
}

void Run::run_call(CallTable& call) {
  if (call.kind == CallTable::Kind::kView) return;
  if (call.kind == CallTable::Kind::kStateWrite) {
    write_state(call);
    return;
  }
  for (size_t a = 0; a < call.axes.size(); ++a) {
    const CallAxis& axis = call.axes[a];
    call.windows[a] = axis.loop < 0 ? RowRange{0, axis.extent}
                                    : tables_.iterations[static_cast<size_t>(axis.loop)];
    call.block[a] = 0;
  }
  size_t o = 0;
  for (const OperandTable& operand : call.inputs)
    call.origins[o++] = operand.origin(tables_.iterations);
  for (const OperandTable& operand : call.outputs) {
    call.origins[o++] = operand.origin(tables_.iterations);
  }
  run_blocks(call);
}

// Blocks in lexicographic order, the first axis slowest, falling axes from their end.
void Run::run_blocks(CallTable& call) {
  while (true) {
    for (size_t a = 0; a < call.axes.size(); ++a) {
      const CallAxis& axis = call.axes[a];
      const RowRange window = call.windows[a];
      const int64_t blocks = plan::block_count(window, axis.block, axis.lane);
      const int64_t block = axis.falling ? blocks - 1 - call.block[a] : call.block[a];
      const RowRange rows = plan::block_rows(window, axis.block, axis.lane, block);
      call.begin[a] = rows.begin;
      call.extents[a] = rows.size();
    }
    run_block(call);
    go_on();
    size_t a = call.axes.size();
    while (a > 0 &&
           ++call.block[a - 1] == plan::block_count(call.windows[a - 1], call.axes[a - 1].block,
                                                    call.axes[a - 1].lane)) {
      call.block[--a] = 0;
    }
    if (a == 0) return;
  }
}

size_t Run::shape_of(const CallAxis& axis, const CallTable& call, size_t a) const {
  size_t found = 0;
  while (axis.shapes[found].rows != call.extents[a]) ++found;
  if (!axis.clipped) return found;
  const RowRange rows{call.begin[a], call.begin[a] + call.extents[a]};
  const auto fits = [&](const CallAxis::Shape& shape) {
    if (shape.rows != call.extents[a]) return false;
    for (size_t o = 0; o < shape.operand_rows.size(); ++o) {
      const bool output = o >= call.inputs.size();
      const OperandTable& operand = output ? call.outputs[o - call.inputs.size()] : call.inputs[o];
      for (const CutTerm& cut : operand.cuts) {
        if (cut.source != static_cast<int>(a)) continue;
        if (plan::rows_of(cut.use, rows, cut.extent).size() != shape.operand_rows[o]) return false;
        const int64_t clipped = cut.use.before - rows.begin * cut.use.stride;
        if (std::max<int64_t>(clipped, 0) != shape.clipped[o]) return false;
      }
    }
    return true;
  };
  while (!fits(axis.shapes[found])) ++found;
  return found;
}

void Run::run_block(CallTable& call) {
  size_t position = 0;
  bool first = true;
  int64_t lane = 0;  // first sample
  for (size_t a = 0; a < call.axes.size(); ++a) {
    const CallAxis& axis = call.axes[a];
    position += axis.multiple * (axis.shapes.size() > 1 ? shape_of(axis, call, a) : 0);
    const bool by_lanes = static_cast<int>(a) == call.batch_axis;
    if (by_lanes) lane = call.begin[a] / axis.lane * axis.lane;
    const int64_t start = by_lanes ? lane : 0;
    const bool at_start =
        axis.falling ? call.begin[a] + call.extents[a] == axis.extent : call.begin[a] == start;
    first &= !axis.sum || at_start;
  }
  KernelTable& kernel = call.kernels[position];
  const auto address = [&](const OperandTable& operand, int64_t origin) {
    for (const CutTerm& cut : operand.cuts) {
      origin += cut.offset(call.begin[static_cast<size_t>(cut.source)]);
    }
    return operand.instance.valid() ? context_.arena + origin : nullptr;
  };
  const size_t inputs = call.inputs.size();
  for (size_t i = 0; i < inputs; ++i) {
    kernel.inputs[i].data = address(call.inputs[i], call.origins[i]);
  }
  for (size_t o = 0; o < call.outputs.size(); ++o) {
    kernel.outputs[o].data = address(call.outputs[o], call.origins[inputs + o]);
  }
  const int64_t number =
      call.sums.empty() ? 0 : lane / call.axes[static_cast<size_t>(call.batch_axis)].lane;
  for (const LaneSum& sum : call.sums) {
    kernel.outputs[sum.output].data += graph::partial_of(number) * sum.partial;
  }
  kernel.kernel->run({.inputs = kernel.inputs,
                      .outputs = kernel.outputs,
                      .scratch = context_.arena + call.scratch,
                      .begin = call.begin,
                      .extents = call.extents,
                      .first = first,
                      .step = &context_.step,
                      .lane = lane});
  if (!call.sums.empty() && ends_lane(call)) join_lanes(call, position, number);
}

// Whether the block is the last of its lane's sum.
bool Run::ends_lane(const CallTable& call) {
  for (size_t a = 0; a < call.axes.size(); ++a) {
    const CallAxis& axis = call.axes[a];
    if (!axis.sum) continue;
    const int64_t end = call.begin[a] + call.extents[a];
    const bool by_lanes = static_cast<int>(a) == call.batch_axis;
    const bool last = axis.falling ? call.begin[a] == 0
                                   : end == axis.extent || (by_lanes && end % axis.lane == 0);
    if (!last) return false;
  }
  return true;
}

void Run::join_lanes(CallTable& call, size_t position, int64_t lane) {
  if (!context_.computes) return;
  const CallAxis& axis = call.axes[static_cast<size_t>(call.batch_axis)];
  KernelTable& kernel = call.kernels[position];
  const auto samples = [&](int64_t first, int64_t end) {
    return std::min(end * axis.lane, axis.extent) - first * axis.lane;
  };
  for (const LaneSum& sum : call.sums) {
    backend::Operand& output = kernel.outputs[sum.output];
    std::byte* const own = output.data - graph::partial_of(lane) * sum.partial;
    backend::Operand added = output;
    graph::for_each_join(lane, graph::filled_lanes(axis.extent, axis.lane),
                         [&](const graph::LaneJoin& join) {
                           output.data = own + (join.from - 1) * sum.partial;
                           added.data = own + join.from * sum.partial;
                           const int64_t before = samples(join.first, join.middle);
                           const int64_t rows = samples(join.middle, join.end);
                           sum.joins[position]->run({.inputs = {&added, 1},
                                                     .outputs = {&output, 1},
                                                     .begin = {&before, 1},
                                                     .extents = {&rows, 1},
                                                     .step = &context_.step});
                         });
  }
}

void Run::write_state(const CallTable& call) {
  const int64_t source = call.inputs[0].origin(tables_.iterations);
  if (!context_.computes || source == call.state) return;
  std::memcpy(context_.arena + call.state, context_.arena + source, call.state_bytes.size());
}

}  // namespace plimsoll::exec
