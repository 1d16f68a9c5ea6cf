#include <algorithm>
#include <limits>

#include "base/accounted.h"
#include "base/error.h"
#include "exec/build_tables.h"

// Tables of calls: operands, the shapes of their blocks, and a kernel for each.

namespace plimsoll::exec {
namespace {

using plan::InstanceId;
using plan::LoopId;
using plan::RowRange;

bool is_sum(graph::AxisKind kind) {
  return kind == graph::AxisKind::kReduce || kind == graph::AxisKind::kScan;
}

// Rows in front of an operand that a window from row `begin` on misses.
int64_t clipped_rows(const graph::AxisUse& use, int64_t begin) {
  return use.dimension < 0 ? 0 : std::max<int64_t>(use.before - begin * use.stride, 0);
}

const graph::AxisUse& use_of(const graph::Axis& axis, size_t operand) {
  const size_t inputs = axis.inputs.size();
  return operand < inputs ? axis.inputs[operand] : axis.outputs[operand - inputs];
}

// Rows of an axis from which no edge of an operand is reached: blocks of equal length are alike
// there. dim_of(operand, dimension) is an operand's extent.
template <typename DimOf>
RowRange find_inside(const plan::Call& call, const graph::Axis& axis, const DimOf& dim_of) {
  RowRange inside{0,
                  axis.extent.of_batch ? std::numeric_limits<int64_t>::max() : axis.extent.count};
  for (size_t o = 0; o < call.inputs.size() + call.outputs.size(); ++o) {
    const graph::AxisUse& use = use_of(axis, o);
    if (use.dimension < 0 || use.stride <= 0) continue;
    inside.begin = std::max(inside.begin, (use.before + use.stride - 1) / use.stride);
    const int64_t last = dim_of(o, use.dimension) - use.after - 1;
    inside.end = std::min(inside.end, last < 0 ? 0 : last / use.stride + 1);
  }
  return inside;
}

}  // namespace

OperandTable TableBuilder::call_operand(InstanceId id, const std::vector<graph::Axis>& axes,
                                        bool output, size_t position) const {
  OperandTable operand;
  operand.instance = id;
  if (!id.valid()) return operand;
  const InstanceLayout& layout = layouts_[id.index()];
  operand.offset = layout.offset;
  operand.scope = scope_terms(id);
  for (size_t a = 0; a < axes.size(); ++a) {
    const graph::AxisUse& use = (output ? axes[a].outputs : axes[a].inputs)[position];
    if (use.dimension < 0) continue;
    const auto d = static_cast<size_t>(use.dimension);
    operand.cuts.push_back({static_cast<int>(a), use, layout.rule[d].extent,
                            d == 0 ? layout.unit : 1, layout.steps[d]});
  }
  return operand;
}

// Calls body(rows) for every range of rows that an iteration of `loop` covers; with the whole axis
// where there is no loop. A long axis has very many: no list of them is made.
void TableBuilder::for_each_window(LoopId loop, int64_t extent, const WindowBody& body) const {
  if (!loop.valid()) {
    body({0, extent});
    return;
  }
  const LoopId outer = plan::find_outer_loop(plan_, parents_, loop);
  const plan::Loop& table = plan_.loops[loop.index()];
  for_each_window(outer, table.extent, [&](RowRange around) {
    for (int64_t begin = around.begin; begin < around.end;) {
      const RowRange rows = plan::iteration_from(table, around, begin, plan::lane_of(plan_, table));
      body(rows);
      begin = rows.end;
    }
  });
}

void TableBuilder::add_shapes(const plan::Call& call, const std::vector<graph::Axis>& axes,
                              CallTable& table) const {
  const std::vector<int64_t> block =
      graph::concrete_block(graph(), call.node, plan_.blocks[call.node.index()], plan_.batch);
  const LoopId around = open_.empty() ? LoopId() : open_.back();
  const std::vector<LoopId> loops = plan::bind_loops(plan_, parents_, around, call, axes);
  const auto dim_of = [&](size_t operand, int dimension) {
    const graph::Node& node = graph().node(call.node);
    const graph::ValueId value = operand < node.inputs.size()
                                     ? node.inputs[operand]
                                     : node.outputs[operand - node.inputs.size()];
    return graph().value(value).type.shape[dimension].at(plan_.batch);
  };
  for (size_t a = 0; a < axes.size(); ++a) {
    CallAxis axis;
    axis.loop = loops[a].valid() ? loops[a].raw() : -1;
    axis.extent = axes[a].extent.at(plan_.batch);
    axis.block = block[a];
    axis.lane = graph::lane_rows(axes[a], plan_.lane);
    axis.falling = axes[a].falling;
    axis.sum = is_sum(axes[a].kind);
    const RowRange inside = find_inside(call, axes[a], dim_of);
    std::vector<int64_t> known;  // rows of blocks that no edge clips
    const auto add = [&](RowRange rows) {
      if (rows.begin >= inside.begin && rows.end <= inside.end) {
        if (std::ranges::find(known, rows.size()) != known.end()) return;
        known.push_back(rows.size());
      }
      CallAxis::Shape shape{rows.size(), {}, {}, rows.begin};
      for (size_t o = 0; o < call.inputs.size() + call.outputs.size(); ++o) {
        const graph::AxisUse& use = use_of(axes[a], o);
        shape.operand_rows.push_back(
            use.dimension < 0 ? -1 : plan::rows_of(use, rows, dim_of(o, use.dimension)).size());
        shape.clipped.push_back(clipped_rows(use, rows.begin));
      }
      if (std::ranges::find(axis.shapes, shape) != axis.shapes.end()) return;
      axis.clipped |=
          std::ranges::find(axis.shapes, shape.rows, &CallAxis::Shape::rows) != axis.shapes.end();
      axis.shapes.push_back(std::move(shape));
    };
    for_each_window(loops[a], axis.extent, [&](RowRange window) {
      const int64_t blocks = plan::block_count(window, axis.block, axis.lane);
      for (int64_t i = 0; i < blocks; ++i) {
        add(plan::block_rows(window, axis.block, axis.lane, i));
      }
    });
    table.axes.push_back(std::move(axis));
  }
}

void TableBuilder::make_kernels(const plan::Call& call, const std::vector<graph::Axis>& axes,
                                CallTable& table) const {
  size_t count = 1;
  for (CallAxis& axis : table.axes) {
    axis.multiple = count;
    count *= axis.shapes.size();
  }
  std::vector<size_t> shape(axes.size(), 0);
  for (size_t k = 0; k < count; ++k) {
    for (size_t a = 0; a < axes.size(); ++a) {
      shape[a] = k / table.axes[a].multiple % table.axes[a].shapes.size();
    }
    table.kernels.push_back(make_kernel(call, axes, table, shape));
  }
}

// What joins sums over lanes, for each shape of a call.
void TableBuilder::add_sums(const plan::Call& call, const std::vector<graph::Axis>& axes,
                            CallTable& table) const {
  const graph::Node& node = graph().node(call.node);
  for (size_t a = 0; a < axes.size(); ++a) {
    if (!graph::is_summed_by_lanes(*node.op, axes[a], plan_.lane)) continue;
    table.batch_axis = static_cast<int>(a);
    for (size_t o = 0; o < call.outputs.size(); ++o) {
      if (axes[a].outputs[o].dimension >= 0 || !call.outputs[o].valid()) continue;
      const plan::Instance& instance = plan_.instances[call.outputs[o].index()];
      LaneSum sum{o, 0, {}};
      sum.partial =
          graph::partial_stride(plan::instance_bytes(type_of(call.outputs[o]), instance.form,
                                                     layouts_[call.outputs[o].index()].dims))
              .count();
      for (const KernelTable& kernel : table.kernels) {
        const size_t operand = call.inputs.size() + o;
        sum.joins.push_back(context_.backend.make_join(
            {graph(), call.node, o, kernel.dims[operand], kernel.strides[operand]}));
      }
      table.sums.push_back(std::move(sum));
    }
  }
}

KernelTable TableBuilder::make_kernel(const plan::Call& call, const std::vector<graph::Axis>& axes,
                                      const CallTable& table, std::span<const size_t> shape) const {
  const graph::Node& node = graph().node(call.node);
  backend::KernelRequest request{.graph = graph(),
                                 .node = call.node,
                                 .batch = plan_.batch,
                                 .extents = {},
                                 .forms = {},
                                 .input_dims = {},
                                 .input_strides = {},
                                 .output_dims = {},
                                 .output_strides = {}};
  for (size_t a = 0; a < axes.size(); ++a) {
    request.extents.push_back(table.axes[a].shapes[shape[a]].rows);
    request.begin.push_back(table.axes[a].shapes[shape[a]].begin);
  }
  KernelTable kernel;
  const size_t inputs = call.inputs.size();
  for (size_t o = 0; o < inputs + call.outputs.size(); ++o) {
    const bool output = o >= inputs;
    const InstanceId id = output ? call.outputs[o - inputs] : call.inputs[o];
    const graph::ValueId value = output ? node.outputs[o - inputs] : node.inputs[o];
    std::vector<int64_t> dims;
    std::vector<int64_t> strides;
    if (id.valid()) {
      dims = graph().value(value).type.shape.at(plan_.batch);
      for (size_t a = 0; a < axes.size(); ++a) {
        const graph::AxisUse& use = use_of(axes[a], o);
        if (use.dimension < 0) continue;
        dims[static_cast<size_t>(use.dimension)] = table.axes[a].shapes[shape[a]].operand_rows[o];
      }
      strides = layouts_[id.index()].strides;
    }
    if (!output) request.forms.push_back(plan_.instances[id.index()].form);
    (output ? request.output_dims : request.input_dims).push_back(dims);
    (output ? request.output_strides : request.input_strides).push_back(strides);
    kernel.dims.push_back(std::move(dims));
    kernel.strides.push_back(std::move(strides));
  }
  kernel.kernel = with_context(
      "while making the kernel of " + node.name + " (" + std::string(node.op->name()) + ")", [&] {
        const MemoryTag tag(MemoryPart::kKernels);
        return context_.backend.make_kernel(request);
      });
  for (size_t o = 0; o < kernel.dims.size(); ++o) {
    (o < inputs ? kernel.inputs : kernel.outputs)
        .push_back({nullptr, kernel.dims[o], kernel.strides[o]});
  }
  return kernel;
}

bool TableBuilder::is_view_in_place(const plan::Call& call) const {
  if (!graph().node(call.node).op->traits().view) return false;
  const InstanceId output = call.outputs[0];
  return output.valid() && plan_.instances[output.index()].in_place == call.inputs[0];
}

}  // namespace plimsoll::exec
