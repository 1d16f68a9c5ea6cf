#include <algorithm>
#include <array>

#include "base/accounted.h"
#include "base/error.h"
#include "exec/build_tables.h"
#include "graph/value_axes.h"

// Tables of feeds, output items, encodes and transfers: this iteration's rows of one value.

namespace plimsoll::exec {
namespace {

using plan::InstanceId;
using plan::LoopId;

}  // namespace

// Which rows of each dimension the loops around cover, by the names of the value's own axes.
std::vector<CutTerm> TableBuilder::iteration_rows_of(InstanceId id) const {
  const graph::ValueId value_id = plan_.instances[id.index()].value;
  const graph::Value& value = graph().value(value_id);
  std::vector<CutTerm> rows;
  for (int64_t extent : value.type.shape.at(plan_.batch)) rows.push_back({-1, {}, extent, 1, 0});
  const auto own = value.kind == graph::ValueKind::kNode
                       ? graph::value_axes(graph(), value_id, axes_[value.producer.index()])
                       : graph::value_axes(graph(), value_id, {});
  for (const graph::ValueAxis& axis : own) {
    const LoopId loop = innermost_loop(axis.name);
    if (!loop.valid()) continue;
    CutTerm& term = rows[static_cast<size_t>(axis.use.dimension)];
    term.source = loop.raw();
    term.use = axis.use;
  }
  return rows;
}

// The innermost loop around over that axis; invalid: none.
LoopId TableBuilder::innermost_loop(const plan::LoopAxis& axis) const {
  for (auto loop = open_.rbegin(); loop != open_.rend(); ++loop) {
    if (plan_.loops[loop->index()].axis == axis) return *loop;
  }
  return {};
}

// The rows that a transfer asks for.
void TableBuilder::narrow(const std::vector<plan::IterationRows>& asked,
                          std::vector<CutTerm>& rows) const {
  for (const plan::IterationRows& iteration : asked) {
    const LoopId loop = innermost_loop(iteration.axis);
    for (CutTerm& term : rows) {
      if (term.source == loop.raw()) term.source = -1;
    }
  }
  for (const plan::IterationRows& iteration : asked) {
    CutTerm& term = rows[static_cast<size_t>(iteration.use.dimension)];
    term.source = innermost_loop(iteration.axis).raw();
    term.use = iteration.use;
  }
}

OperandTable TableBuilder::copy_operand(InstanceId id, const std::vector<CutTerm>& rows) const {
  const InstanceLayout& layout = layouts_[id.index()];
  OperandTable operand;
  operand.instance = id;
  operand.offset = layout.offset;
  operand.scope = scope_terms(id);
  for (size_t d = 0; d < rows.size(); ++d) {
    if (rows[d].source < 0) continue;
    operand.cuts.push_back(rows[d]);
    operand.cuts.back().unit = d == 0 ? layout.unit : 1;
    operand.cuts.back().stride = layout.steps[d];
  }
  return operand;
}

void TableBuilder::add_copy(const plan::Item& item) {
  CopyTable table;
  StepKind kind = StepKind::kFeed;
  InstanceId source;
  InstanceId target;
  if (const auto* wait = std::get_if<plan::WaitTransfer>(&item)) {
    const auto begun = std::ranges::find(transfers_, wait->number, &std::pair<int, size_t>::first);
    PLIMSOLL_CHECK(begun != transfers_.end(), "a wait for a transfer that was not begun");
    tables_.steps.push_back({StepKind::kWaitTransfer, begun->second, 0, number_++});
    return;
  }
  if (const auto* feed = std::get_if<plan::Feed>(&item)) {
    target = feed->target;
    table.ends = {graph().value(plan_.instances[target.index()].value).input};
  } else if (const auto* output = std::get_if<plan::Output>(&item)) {
    kind = StepKind::kOutput;
    source = output->source;
    const graph::ValueId value = plan_.instances[source.index()].value;
    for (size_t o = 0; o < graph().outputs.size(); ++o) {
      if (graph().outputs[o] == value) table.ends.push_back(static_cast<int>(o));
    }
  } else if (const auto* encode = std::get_if<plan::Encode>(&item)) {
    kind = StepKind::kEncode;
    source = encode->source;
    target = encode->target;
  } else if (const auto* begin = std::get_if<plan::BeginTransfer>(&item)) {
    kind = StepKind::kBeginTransfer;
    source = begin->source;
    target = begin->target;
    table.transfer = tables_.layouts.size();
    transfers_.emplace_back(begin->number, tables_.copies.size());
  }
  const InstanceId any = source.valid() ? source : target;
  table.rows = iteration_rows_of(any);
  if (const auto* begin = std::get_if<plan::BeginTransfer>(&item)) narrow(begin->rows, table.rows);
  table.region.resize(table.rows.size());
  if (source.valid()) table.source = copy_operand(source, table.rows);
  if (target.valid()) table.target = copy_operand(target, table.rows);
  table.bits = layouts_[(target.valid() ? target : source).index()].bits;
  const Shape& shape = type_of(any).shape;
  table.sample_rows = shape.has_batch() ? shape[0].count : 0;
  if (kind == StepKind::kEncode) make_encoders(table);
  if (kind == StepKind::kBeginTransfer) {
    tables_.layouts.push_back(spill_layout(table));
    for (LoopId loop : open_) tables_.loops[loop.index()].transfers = true;
  }
  tables_.steps.push_back({kind, tables_.copies.size(), 0, number_++});
  tables_.copies.push_back(std::move(table));
}

// A kernel for each number of rows that an iteration may have.
void TableBuilder::make_encoders(CopyTable& table) const {
  const graph::ValueType& type = type_of(table.source.instance);
  const InstanceLayout& layout = layouts_[table.source.instance.index()];
  std::vector<int64_t> counts;
  if (table.rows.empty()) {
    counts.push_back(1);
  } else {
    const CutTerm& first = table.rows[0];
    const LoopId loop = first.source < 0 ? LoopId() : LoopId(first.source);
    const int64_t extent = first.source < 0 ? first.extent : plan_.loops[loop.index()].extent;
    for_each_window(loop, extent, [&](plan::RowRange window) {
      const int64_t rows =
          first.source < 0 ? window.size() : plan::rows_of(first.use, window, first.extent).size();
      if (std::ranges::find(counts, rows) == counts.end()) counts.push_back(rows);
    });
  }
  for (int64_t rows : counts) {
    KernelTable encoder;
    const MemoryTag tag(MemoryPart::kKernels);
    encoder.kernel = context_.backend.make_encoder(
        {plan_.instances[table.target.instance.index()].form, type, rows});
    std::vector<int64_t> dims = type.shape.at(plan_.batch);
    if (!dims.empty()) dims[0] = rows;
    encoder.dims = {dims, dims};
    encoder.strides = {layout.strides, layouts_[table.target.instance.index()].strides};
    encoder.inputs.push_back({nullptr, encoder.dims[0], encoder.strides[0]});
    encoder.outputs.push_back({nullptr, encoder.dims[1], encoder.strides[1]});
    table.encoders.push_back(std::move(encoder));
  }
}

SpillRegion TableBuilder::spill_layout(const CopyTable& table) const {
  const bool to_file = plan_.instances[table.target.instance.index()].space == plan::Space::kSpill;
  const InstanceLayout& memory = layouts_[(to_file ? table.source : table.target).instance.index()];
  const InstanceLayout& file = layouts_[(to_file ? table.target : table.source).instance.index()];
  SpillRegion region;
  region.to_file = to_file;
  region.unit = memory.element;
  if (memory.bits) {
    region.rows = {1};
    region.memory_strides = {memory.element};
    region.file_strides = {file.element};
  } else {
    region.rows.resize(table.rows.size());
    region.memory_strides = memory.steps;
    region.file_strides = file.steps;
  }
  return region;
}

}  // namespace plimsoll::exec
