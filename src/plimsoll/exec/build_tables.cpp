#include "exec/build_tables.h"

#include <algorithm>

#include "base/error.h"
#include "plan/tree/lasting_packs.h"

namespace plimsoll::exec {

using plan::InstanceId;
using plan::LoopId;

ProgramTables build_tables(const TableContext& context) { return TableBuilder(context).build(); }

TableBuilder::TableBuilder(const TableContext& context)
    : context_(context),
      plan_(context.program_plan),
      axes_(plan::find_all_axes(context.program.graph)),
      parents_(plan::find_parents(plan_)),
      rules_(plan::find_instance_rules(plan_, context.program.graph, axes_)) {
  layouts_.reserve(plan_.instances.size());
  for (size_t i = 0; i < plan_.instances.size(); ++i) layouts_.push_back(lay_out(InstanceId(i)));
}

ProgramTables TableBuilder::build() {
  const std::shared_ptr<const void> remembered =
      context_.backend.catalog().remember(context_.program.graph);
  for (size_t l = 0; l < plan_.loops.size(); ++l) {
    const plan::Loop& loop = plan_.loops[l];
    const LoopId outer = plan::find_outer_loop(plan_, parents_, LoopId(l));
    tables_.loops.push_back(
        {outer.raw() < 0 ? -1 : outer.raw(), loop.extent, loop.slice, plan::lane_of(plan_, loop)});
  }
  tables_.iterations.resize(plan_.loops.size());
  add_items(plan_.items);
  const std::vector<int64_t> lasting = plan::find_lasting_packs(plan_, graph());
  for (Step& step : tables_.steps) {
    step.lasting = std::ranges::binary_search(lasting, step.number);
  }
  return std::move(tables_);
}

const graph::ValueType& TableBuilder::type_of(InstanceId id) const {
  return graph().value(plan_.instances[id.index()].value).type;
}

InstanceLayout TableBuilder::lay_out(InstanceId id) const {
  const plan::Instance& instance = plan_.instances[id.index()];
  const graph::ValueType& type = type_of(id);
  InstanceLayout layout;
  layout.rule = rules_[id.index()];
  layout.dims = plan::largest_rows(layout.rule, plan_);
  layout.bits = !instance.form.empty() || type.dtype == DType::kBits;
  layout.element =
      (layout.bits ? row_bytes(DType::kBits, type.shape) : element_bytes(type.dtype)).count();
  layout.strides.assign(layout.dims.size(), 1);
  for (size_t d = layout.dims.size(); d-- > 1;) {
    layout.strides[d - 1] = layout.strides[d] * layout.dims[d];
  }
  for (int64_t stride : layout.strides) layout.steps.push_back(stride * layout.element);
  if (layout.bits) {
    layout.steps.assign(layout.dims.size(), 0);
    if (type.shape.has_batch()) {
      layout.steps[0] = layout.element;
      layout.unit = type.shape[0].count;
    }
  }
  layout.offset = instance.offset.count();
  if (instance.space == plan::Space::kArena) layout.offset += context_.plan.state_bytes.count();
  return layout;
}

std::vector<CutTerm> TableBuilder::scope_terms(InstanceId id) const {
  const InstanceLayout& layout = layouts_[id.index()];
  std::vector<CutTerm> terms;
  for (size_t d = 0; d < layout.rule.size(); ++d) {
    const plan::DimensionRule& rule = layout.rule[d];
    if (!rule.loop.valid()) continue;
    terms.push_back(
        {rule.loop.raw(), rule.use, rule.extent, d == 0 ? layout.unit : 1, layout.steps[d]});
  }
  return terms;
}

void TableBuilder::add_items(const std::vector<plan::Item>& items) {
  for (const plan::Item& item : items) {
    if (const auto* enter = std::get_if<plan::Enter>(&item)) {
      add_loop(enter->loop);
    } else if (const auto* call = std::get_if<plan::Call>(&item)) {
      add_call(*call);
    } else {
      add_copy(item);
    }
  }
}

void TableBuilder::add_loop(LoopId loop) {
  const size_t begin = tables_.steps.size();
  tables_.steps.push_back({StepKind::kLoopBegin, loop.index(), 0, number_++});
  open_.push_back(loop);
  add_items(plan_.loops[loop.index()].items);
  open_.pop_back();
  tables_.steps.push_back({StepKind::kLoopEnd, loop.index(), begin + 1, number_++});
  tables_.steps[begin].jump = tables_.steps.size();
}

void TableBuilder::add_call(const plan::Call& call) {
  const graph::Node& node = graph().node(call.node);
  const std::vector<graph::Axis>& axes = axes_[call.node.index()];
  CallTable table;
  table.call = &call;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    table.inputs.push_back(call_operand(call.inputs[i], axes, false, i));
  }
  for (size_t o = 0; o < call.outputs.size(); ++o) {
    table.outputs.push_back(call_operand(call.outputs[o], axes, true, o));
  }
  if (node.op->traits().state_write) {
    const std::string& name = graph().state(node.writes).name;
    const auto& states = context_.plan.states;
    const auto place = std::ranges::find(states, name, &plan::StatePlacement::name);
    PLIMSOLL_CHECK(place != states.end(), "the plan has no place for state " + name);
    // What lies in the spill file is stored by the transfer after the call.
    const bool in_file = place->space == plan::Space::kSpill;
    table.kind = in_file ? CallTable::Kind::kView : CallTable::Kind::kStateWrite;
    table.state = place->offset.count();
    table.state_bytes = place->bytes;
  } else if (is_view_in_place(call)) {
    table.kind = CallTable::Kind::kView;
  } else {
    add_shapes(call, axes, table);
    make_kernels(call, axes, table);
    add_sums(call, axes, table);
  }
  table.scratch = call.scratch_offset.count() + context_.plan.state_bytes.count();
  table.origins.resize(table.inputs.size() + table.outputs.size());
  table.windows.resize(table.axes.size());
  table.block.resize(table.axes.size());
  table.begin.resize(table.axes.size());
  table.extents.resize(table.axes.size());
  tables_.steps.push_back({StepKind::kCall, tables_.calls.size(), 0, number_++});
  tables_.calls.push_back(std::move(table));
}

Bytes ProgramTables::overhead() const {
  const auto size = [](const auto& table) { return table.capacity() * sizeof(table[0]); };
  size_t bytes = sizeof(*this) + size(steps) + size(calls) + size(copies) + size(loops);
  for (const CallTable& call : calls) {
    bytes += size(call.axes) + size(call.inputs) + size(call.outputs) + size(call.kernels);
    bytes += (call.origins.size() + 5 * call.axes.size()) * sizeof(int64_t);
    for (const auto* operands : {&call.inputs, &call.outputs}) {
      for (const OperandTable& operand : *operands)
        bytes += size(operand.scope) + size(operand.cuts);
    }
    for (const CallAxis& axis : call.axes) {
      for (const CallAxis::Shape& shape : axis.shapes) {
        bytes += sizeof(shape) + size(shape.operand_rows) + size(shape.clipped);
      }
    }
    for (const LaneSum& sum : call.sums) bytes += sizeof(sum) + size(sum.joins);
    for (const KernelTable& kernel : call.kernels) {
      bytes += size(kernel.dims) + size(kernel.strides);
      for (const auto& dims : kernel.dims) bytes += 2 * size(dims);
      bytes += size(kernel.inputs) + size(kernel.outputs);
    }
  }
  return Bytes(static_cast<int64_t>(bytes));
}

}  // namespace plimsoll::exec
