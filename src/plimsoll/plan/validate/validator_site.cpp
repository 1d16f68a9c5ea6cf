#include <algorithm>
#include <set>

#include "base/format.h"
#include "graph/lanes.h"
#include "graph/value_axes.h"
#include "plan/validate/validator_impl.h"

// Sites of single items: axes, bindings, and the rows that operands touch.

namespace plimsoll::plan::referee {
namespace {

using graph::Axis;
using graph::AxisKind;

Validation bad_reference(const Subject& subject, const Site& site, const std::string& what) {
  return {Verdict::kBadReference, at(subject, site) + what};
}

std::vector<int64_t> dims_of(const Subject& subject, graph::ValueId value) {
  return subject.source.graph.value(value).type.shape.at(subject.source.batch);
}

bool is_sum(AxisKind kind) { return kind == AxisKind::kReduce || kind == AxisKind::kScan; }

// Binds the loops around the site to its axes: by name, or as the call says.
Validation bind_loops(const Subject& subject, const Call* call, Site& site) {
  std::set<LoopId> bound;
  for (LoopId loop : site.around) {
    std::string name = subject.program.loops[loop.index()].axis.name();
    bool explicit_binding = false;
    if (call != nullptr) {
      for (const auto& [id, axis] : call->bindings) {
        if (id != loop) continue;
        name = axis;
        explicit_binding = true;
        bound.insert(id);
      }
    }
    const auto axis = std::find_if(site.axes.begin(), site.axes.end(),
                                   [&](const SiteAxis& a) { return a.name == name; });
    if (axis != site.axes.end()) {
      axis->loops.push_back(loop);
    } else if (explicit_binding) {
      return {Verdict::kBadSlice,
              fmt::format("{}loop L{} is bound to axis {}, which the node has not",
                          at(subject, site), loop.raw(), name)};
    }
  }
  if (call != nullptr && bound.size() != call->bindings.size()) {
    return {Verdict::kBadSlice,
            at(subject, site) + "a binding names a loop that is not around the call"};
  }
  return ok();
}

Validation check_bound_loops(const Subject& subject, const Site& site) {
  for (const SiteAxis& axis : site.axes) {
    if (axis.loops.empty()) continue;
    const Loop& outermost = subject.program.loops[axis.loops.front().index()];
    if (outermost.extent != axis.extent) {
      return {Verdict::kBadSlice,
              fmt::format("{}axis {}: expected a loop of {} rows, received {}", at(subject, site),
                          axis.name, axis.extent, outermost.extent)};
    }
    for (LoopId id : axis.loops) {
      const Loop& loop = subject.program.loops[id.index()];
      if (loop.axis != outermost.axis) {
        return {Verdict::kBadSlice, at(subject, site) + "axis " + axis.name +
                                        " is bound to loops of two axes, " + outermost.axis.name() +
                                        " and " + loop.axis.name()};
      }
      const bool cut = loop.slice < loop.extent;
      if (cut && (axis.kind == AxisKind::kWhole || axis.kind == AxisKind::kNormalize)) {
        return {Verdict::kNotCuttable,
                fmt::format("{}axis {} is {}, expected a loop that does not cut it, received L{}",
                            at(subject, site), axis.name, graph::to_string(axis.kind), id.raw())};
      }
    }
  }
  return ok();
}

// A loop around a node that does not declare its axis although its operands' types have it.
Validation check_undeclared(const Subject& subject, const Call& call, const Site& site) {
  if (call.clone != 0) return ok();
  const graph::Node& node = subject.source.graph.node(call.node);
  for (LoopId id : site.around) {
    const Loop& loop = subject.program.loops[id.index()];
    const auto has_it = [&](graph::ValueId value) {
      return loop.axis.use_in(subject.source.graph.value(value).type).dimension >= 0;
    };
    const bool declared =
        std::any_of(site.axes.begin(), site.axes.end(),
                    [&](const SiteAxis& axis) { return loop.axis.name() == axis.name; });
    const bool rebound = std::any_of(call.bindings.begin(), call.bindings.end(),
                                     [&](const auto& binding) { return binding.first == id; });
    if (declared || rebound || loop.slice >= loop.extent) continue;
    if (std::any_of(node.inputs.begin(), node.inputs.end(), has_it) ||
        std::any_of(node.outputs.begin(), node.outputs.end(), has_it)) {
      return {Verdict::kNotCuttable,
              fmt::format("{}the node declares no axis {}, expected it outside of loops over that, "
                          "received L{}",
                          at(subject, site), loop.axis.name(), id.raw())};
    }
  }
  return ok();
}

void add_cuts(const std::vector<Axis>& axes, bool output, size_t position, SiteOperand& operand) {
  for (size_t a = 0; a < axes.size(); ++a) {
    const graph::AxisUse& use = (output ? axes[a].outputs : axes[a].inputs)[position];
    if (use.dimension >= 0) {
      operand.cuts.push_back({use.dimension, static_cast<int>(a), use});
    } else if (output) {
      operand.folds.push_back(static_cast<int>(a));
    }
  }
}

Validation check_output_folds(const Subject& subject, const Site& site) {
  for (const SiteOperand& output : site.writes) {
    for (int a : output.folds) {
      const SiteAxis& axis = site.axes[static_cast<size_t>(a)];
      if (is_sum(axis.kind) || axis.is_one_call()) continue;
      return {Verdict::kNotCuttable, at(subject, site) + "an output lacks axis " + axis.name +
                                         " of kind " + std::string(graph::to_string(axis.kind)) +
                                         ", which cannot be cut into blocks"};
    }
  }
  return ok();
}

Validation make_call(const Subject& subject, const Call& call, Site& site) {
  const graph::Graph& graph = subject.source.graph;
  if (!call.node.valid() || call.node.index() >= graph.nodes.size()) {
    return bad_reference(subject, site, "no such node");
  }
  const graph::Node& node = graph.node(call.node);
  if (call.inputs.size() != node.inputs.size() || call.outputs.size() != node.outputs.size()) {
    return bad_reference(
        subject, site,
        fmt::format("expected {} inputs and {} outputs, received {} and {}", node.inputs.size(),
                    node.outputs.size(), call.inputs.size(), call.outputs.size()));
  }
  const std::vector<Axis> axes = graph::axes_of(graph, call.node);
  const std::vector<int64_t> block = graph::concrete_block(
      graph, call.node, subject.program.blocks[call.node.index()], subject.source.batch);
  for (size_t a = 0; a < axes.size(); ++a) {
    const bool rows = axes[a].kind == AxisKind::kMap || axes[a].kind == AxisKind::kWindow;
    site.axes.push_back(
        {.name = axes[a].name,
         .kind = axes[a].kind,
         .extent = axes[a].extent.at(subject.source.batch),
         .lane = graph::lane_rows(axes[a], subject.program.lane),
         .block = block[a],
         .falling = axes[a].falling,
         .row_exact = rows && subject.catalog.row_exact(graph, call.node, static_cast<int>(a)),
         .loops = {}});
  }
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const InstanceId id = call.inputs[i];
    if (!exists(subject.program, id) ||
        subject.program.instances[id.index()].value != node.inputs[i]) {
      return bad_reference(subject, site,
                           fmt::format("input {}: expected an instance of %{}, received {}", i,
                                       graph.value(node.inputs[i]).name, name_of(subject, id)));
    }
    site.reads.push_back({id, dims_of(subject, node.inputs[i]), {}, {}});
    add_cuts(axes, false, i, site.reads.back());
  }
  for (size_t o = 0; o < call.outputs.size(); ++o) {
    const InstanceId id = call.outputs[o];
    if (id.valid()) {
      const Instance* instance =
          exists(subject.program, id) ? &subject.program.instances[id.index()] : nullptr;
      if (instance == nullptr || instance->value != node.outputs[o] || !instance->form.empty() ||
          instance->copy != call.clone) {
        return bad_reference(
            subject, site,
            fmt::format("output {}: expected copy {} of %{}, received {}", o, call.clone,
                        graph.value(node.outputs[o]).name, name_of(subject, id)));
      }
    }
    site.writes.push_back({id, dims_of(subject, node.outputs[o]), {}, {}});
    add_cuts(axes, true, o, site.writes.back());
  }
  if (Validation v = check_output_folds(subject, site); !v.ok()) return v;
  if (Validation v = bind_loops(subject, &call, site); !v.ok()) return v;
  if (Validation v = check_undeclared(subject, call, site); !v.ok()) return v;
  return check_bound_loops(subject, site);
}

// This iteration's rows of a value outside of any call: cut along its own axes, by the loops of
// their names.
SiteOperand value_operand(const Subject& subject, InstanceId id, Site& site) {
  const graph::Graph& graph = subject.source.graph;
  const graph::ValueId value_id = subject.program.instances[id.index()].value;
  SiteOperand operand{id, dims_of(subject, value_id), {}, {}};
  for (const graph::ValueAxis& axis : graph::value_axes(graph, value_id)) {
    const int64_t rows = axis.extent.at(subject.source.batch);
    operand.cuts.push_back({axis.use.dimension, static_cast<int>(site.axes.size()), axis.use});
    site.axes.push_back({.name = axis.name, .extent = rows, .block = rows, .loops = {}});
  }
  return operand;
}

Validation finish_copy(const Subject& subject, Site& site) {
  if (Validation v = bind_loops(subject, nullptr, site); !v.ok()) return v;
  return check_bound_loops(subject, site);
}

// A transfer that says which rows an iteration moves, whatever its producer's axes say: along one
// axis.
Validation cut_by_rows(const Subject& subject, const IterationRows& rows, Site& site) {
  SiteOperand& operand = site.reads.front();
  const auto loop = std::find_if(site.around.begin(), site.around.end(), [&](LoopId id) {
    return subject.program.loops[id.index()].axis == rows.axis;
  });
  const graph::AxisUse& use = rows.use;
  const bool dimension =
      use.dimension >= 0 && use.dimension < static_cast<int>(operand.dims.size());
  constexpr int64_t kMostRows = 1 << 20;  // of a window, or between two
  const bool window = use.stride >= 1 && use.before >= 0 && use.after >= 0 &&
                      std::max({use.stride, use.before, use.after}) <= kMostRows;
  if (loop == site.around.end() || !dimension || !window) {
    return bad_reference(subject, site,
                         "expected a loop over " + rows.axis.name() +
                             " around a transfer of such rows, and numbers that a window of its "
                             "value can have");
  }
  std::erase_if(operand.cuts, [&](const Cut& cut) {
    return cut.dimension == use.dimension ||
           rows.axis.name() == site.axes[static_cast<size_t>(cut.axis)].name;
  });
  // The axis of this name that may be there already would be bound to loops of another extent.
  for (SiteAxis& axis : site.axes) {
    if (rows.axis.name() == axis.name) axis.name += " of its producer";
  }
  const int64_t extent = subject.program.loops[loop->index()].extent;
  operand.cuts.push_back({use.dimension, static_cast<int>(site.axes.size()), use});
  site.axes.push_back({.name = rows.axis.name(), .extent = extent, .block = extent, .loops = {}});
  return ok();
}

Validation cut_by_rows(const Subject& subject, const std::vector<IterationRows>& rows, Site& site) {
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (rows[i].axis != rows[j].axis && rows[i].use.dimension != rows[j].use.dimension) continue;
      return bad_reference(
          subject, site,
          fmt::format("expected each axis and each dimension once among the rows of an iteration, "
                      "received axis {} of dimension {} after axis {} of dimension {}",
                      rows[i].axis.name(), rows[i].use.dimension, rows[j].axis.name(),
                      rows[j].use.dimension));
    }
    if (Validation v = cut_by_rows(subject, rows[i], site); !v.ok()) return v;
  }
  return ok();
}

// Encode and BeginTransfer: the same rows of two instances of one value.
Validation make_copy(const Subject& subject, InstanceId source, InstanceId target,
                     const std::vector<IterationRows>& rows, Site& site) {
  if (!exists(subject.program, source) || !exists(subject.program, target)) {
    return bad_reference(subject, site, "no such instance");
  }
  const Instance& from = subject.program.instances[source.index()];
  const Instance& to = subject.program.instances[target.index()];
  if (from.value != to.value) {
    return bad_reference(subject, site,
                         "expected two instances of one value, received " +
                             name_of(subject, source) + " and " + name_of(subject, target));
  }
  site.reads.push_back(value_operand(subject, source, site));
  if (Validation v = cut_by_rows(subject, rows, site); !v.ok()) return v;
  site.writes.push_back(site.reads.front());
  site.writes.front().instance = target;
  return finish_copy(subject, site);
}

Validation make_end(const Subject& subject, InstanceId id, graph::ValueKind kind, bool feed,
                    Site& site) {
  const graph::Graph& graph = subject.source.graph;
  if (!exists(subject.program, id)) return bad_reference(subject, site, "no such instance");
  const Instance& instance = subject.program.instances[id.index()];
  const bool is_output =
      std::find(graph.outputs.begin(), graph.outputs.end(), instance.value) != graph.outputs.end();
  const bool right = feed ? graph.value(instance.value).kind == kind : is_output;
  if (!right || !instance.form.empty()) {
    return bad_reference(subject, site,
                         std::string("expected a plain instance of an ") +
                             (feed ? "input" : "output") + " of the program, received " +
                             name_of(subject, id));
  }
  (feed ? site.writes : site.reads).push_back(value_operand(subject, id, site));
  return finish_copy(subject, site);
}

}  // namespace

Validation make_site(const Subject& subject, const Item& item, Site& site) {
  if (const auto* call = std::get_if<Call>(&item)) return make_call(subject, *call, site);
  if (const auto* encode = std::get_if<Encode>(&item)) {
    return make_copy(subject, encode->source, encode->target, {}, site);
  }
  if (const auto* begin = std::get_if<BeginTransfer>(&item)) {
    return make_copy(subject, begin->source, begin->target, begin->rows, site);
  }
  if (const auto* feed = std::get_if<Feed>(&item)) {
    return make_end(subject, feed->target, graph::ValueKind::kInput, true, site);
  }
  if (const auto* output = std::get_if<Output>(&item)) {
    return make_end(subject, output->source, graph::ValueKind::kNode, false, site);
  }
  return ok();
}

}  // namespace plimsoll::plan::referee
