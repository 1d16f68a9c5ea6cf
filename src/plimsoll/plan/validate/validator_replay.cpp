#include "plan/validate/validator_replay.h"

#include <algorithm>

#include "base/format.h"

namespace plimsoll::plan::referee {
namespace {

std::string rows_text(const Range& range) {
  return fmt::format("[{}, {})", range.begin, range.end);
}

}  // namespace

Validation replay(const Subject& subject, const Sites& sites) {
  return Replay(subject, sites).run();
}

Replay::Replay(const Subject& subject, const Sites& sites) : subject_(subject), sites_(sites) {
  const graph::Graph& graph = subject.source.graph;
  const size_t instances = subject.program.instances.size();
  iterations_.resize(subject.program.loops.size());
  held_.resize(instances);
  complete_.assign(instances, 1);
  ever_written_.assign(instances, false);
  taken_.assign(instances, false);
  sharers_.resize(instances);
  computed_.resize(graph.nodes.size());
  handed_out_.assign(graph.values.size(), -1);
  states_.resize(graph.states.size());
  state_of_instance_.assign(instances, -1);
  pending_.resize(sites.transfers.size());
  transfer_of_.resize(sites.sites.size());
  for (size_t t = 0; t < sites.transfers.size(); ++t) {
    transfer_of_[sites.transfers[t].begin] = transfer_of_[sites.transfers[t].wait] = t;
  }
  shapes_.resize(sites.sites.size());
  lengths_seen_.resize(sites.sites.size());
  for (const Site& site : sites.sites) {
    for (const SiteOperand& operand : site.writes) {
      if (operand.instance.valid()) {
        complete_[operand.instance.index()] = blocks_in_all(operand, site);
      }
    }
  }
  std::vector<std::vector<InstanceId>> members(instances);  // by the group's owner, rising
  for (size_t i = 0; i < instances; ++i) {
    members[sites.group[i].index()].push_back(InstanceId(i));
  }
  for (size_t i = 0; i < instances; ++i) {
    for (InstanceId other : members[sites.group[i].index()]) {
      if (other != InstanceId(i)) sharers_[i].push_back(other);
    }
    find_memory(i);
  }
}

// The state variable in whose memory the instance lies, if it does.
void Replay::find_memory(size_t i) {
  const graph::Graph& graph = subject_.source.graph;
  const Instance& instance = subject_.program.instances[i];
  const auto lie_in = [&](int s) {
    const graph::StateVariable& state = graph.states[static_cast<size_t>(s)];
    state_of_instance_[i] = s;
    states_[static_cast<size_t>(s)].instances.push_back(InstanceId(i));
    if (instance.value == state.incoming) {
      held_[i].set(region({InstanceId(i), state.type.shape.at(1), {}, {}}, {}), 1);
    }
  };
  if (const int s = find_state_in_file(subject_, InstanceId(i)); s >= 0) {
    states_[static_cast<size_t>(s)].in_file = true;
    lie_in(s);
    return;
  }
  if (instance.space != Space::kState) return;
  const graph::ValueId owner = subject_.program.instances[sites_.group[i].index()].value;
  std::vector<int> states = subject_.states.values[owner.index()].incoming;
  const std::vector<int>& outgoing = subject_.states.values[instance.value.index()].outgoing;
  states.insert(states.end(), outgoing.begin(), outgoing.end());
  std::sort(states.begin(), states.end());
  for (int s : states) {
    const StatePlacement* placement = subject_.states.places[static_cast<size_t>(s)];
    if (placement == nullptr || placement->offset != instance.offset) continue;
    lie_in(s);
    return;
  }
}

int64_t Replay::blocks_in_all(const SiteOperand& operand, const Site& site) const {
  int64_t blocks = 1;
  for (int a : operand.folds) {
    const SiteAxis& axis = site.axes[static_cast<size_t>(a)];
    blocks *= axis.block_count();
  }
  return blocks;
}

Validation Replay::run() {
  if (Validation v = run_body(sites_.root()); !v.ok()) return v;
  return check_end();
}

Validation Replay::run_body(const Body& body) {
  for (InstanceId id : body.in_scope) {
    const bool incoming = sites_.writer[id.index()] < 0;
    if (!incoming) held_[id.index()].clear();
    taken_[id.index()] = false;
  }
  for (size_t site : body.sites) {
    if (Validation v = run_site(site); !v.ok()) return v;
  }
  return ok();
}

Validation Replay::run_loop(LoopId id) {
  const Loop& loop = subject_.program.loops[id.index()];
  Range rows{0, loop.extent};
  const Site& site = *std::find_if(sites_.sites.begin(), sites_.sites.end(), [&](const Site& s) {
    const auto* enter = std::get_if<Enter>(s.item);
    return enter != nullptr && enter->loop == id;
  });
  for (LoopId around : site.around) {
    if (subject_.program.loops[around.index()].axis == loop.axis)
      rows = iterations_[around.index()];
  }
  const int64_t lane = loop.axis.of_samples() ? subject_.program.lane : 0;
  for (Range now{rows.begin, rows.begin}; now.end < rows.end;) {
    now = {now.end, std::min(now.end + loop.slice, rows.end)};
    if (lane > 0) now.end = std::min(now.end, now.begin / lane * lane + lane);
    iterations_[id.index()] = now;
    if (Validation v = run_body(sites_.bodies[id.index()]); !v.ok()) return v;
  }
  return ok();
}

Validation Replay::run_site(size_t index) {
  const Site& site = sites_.sites[index];
  if (const Call* call = site.call()) return run_call(site, *call);
  if (const auto* enter = std::get_if<Enter>(site.item)) return run_loop(enter->loop);
  if (std::holds_alternative<BeginTransfer>(*site.item)) return run_begin(index);
  if (std::holds_alternative<WaitTransfer>(*site.item)) return run_wait(index);
  if (const auto* output = std::get_if<Output>(site.item)) return run_output(site, output->source);
  const std::vector<Range> windows = windows_of(site);
  for (const SiteOperand& operand : site.reads) {
    if (Validation v = read(site, operand, region(operand, windows)); !v.ok()) return v;
  }
  return write(site, site.writes[0], windows);
}

std::vector<Range> Replay::windows_of(const Site& site) const {
  std::vector<Range> windows;
  windows.reserve(site.axes.size());
  for (const SiteAxis& axis : site.axes) {
    windows.push_back(axis.loops.empty() ? Range{0, axis.extent}
                                         : iterations_[axis.loops.back().index()]);
  }
  return windows;
}

Validation Replay::check_window(const Site& site, size_t a, const Range& window) const {
  const SiteAxis& axis = site.axes[a];
  const bool whole =
      axis.kind == graph::AxisKind::kWhole || axis.kind == graph::AxisKind::kNormalize;
  if (whole && (axis.block < axis.extent || window != Range{0, axis.extent})) {
    return {Verdict::kNotCuttable, at(subject_, site) + "axis " + axis.name + " is " +
                                       std::string(graph::to_string(axis.kind)) +
                                       ", expected all of its rows in one block, received " +
                                       rows_text(window)};
  }
  if (axis.row_exact) return ok();
  if (axis.block_of(window.begin).begin == window.begin &&
      axis.block_of(window.end - 1).end == window.end) {
    return ok();
  }
  return {Verdict::kBadSlice,
          fmt::format("{}axis {}: expected rows from and to multiples of the block {}, received {}",
                      at(subject_, site), axis.name, axis.block, rows_text(window))};
}

Validation Replay::check_repeats(const Site& site, const Call& call,
                                 const std::vector<Range>& windows) {
  if (call.clone != 0) return ok();
  HeldRows& computed = computed_[call.node.index()];
  if (!computed.intersects(windows)) {
    computed.set(windows, 1);
    return ok();
  }
  const bool writes_state = subject_.source.graph.node(call.node).writes.valid();
  return {writes_state ? Verdict::kStateOrder : Verdict::kRepeatedNode,
          at(subject_, site) + "rows " + text(windows) + " of its axes are computed a second time"};
}

Validation Replay::run_call(const Site& site, const Call& call) {
  const std::vector<Range> windows = windows_of(site);
  for (size_t a = 0; a < site.axes.size(); ++a) {
    if (Validation v = check_window(site, a, windows[a]); !v.ok()) return v;
  }
  for (const SiteOperand& operand : site.reads) {
    const Box rows = region(operand, windows);
    if (Validation v = check_whole_rows(site, operand, rows); !v.ok()) return v;
    if (Validation v = read(site, operand, rows); !v.ok()) return v;
  }
  if (Validation v = check_scratch(site, call, windows); !v.ok()) return v;
  for (const SiteOperand& operand : site.writes) {
    if (!operand.instance.valid()) continue;
    if (Validation v = write(site, operand, windows); !v.ok()) return v;
  }
  if (Validation v = check_repeats(site, call, windows); !v.ok()) return v;
  return run_state_write(site, call);
}

Validation Replay::run_state_write(const Site& site, const Call& call) {
  const graph::StateId state = subject_.source.graph.node(call.node).writes;
  if (!state.valid()) return ok();
  StateMemory& memory = states_[state.index()];
  if (is_in_file(state)) return ok();  // a transfer stores what was accepted here
  const InstanceId source = call.inputs[0];
  if (state_of_instance_[source.index()] != static_cast<int>(state.index())) {
    for (InstanceId id : memory.instances) {
      if (Validation v = check_pending(site, id); !v.ok()) return v;
      held_[id.index()].clear();
    }
  }
  memory.final = true;
  return ok();
}

bool Replay::is_in_file(graph::StateId state) const {
  return subject_.states.in_file(state.index());
}

// Every row of a variable in the spill file that is written must have been stored there.
Validation Replay::check_all_stored() const {
  const graph::Graph& graph = subject_.source.graph;
  for (size_t s = 0; s < graph.states.size(); ++s) {
    const graph::StateVariable& state = graph.states[s];
    if (!state.write.valid() || !is_in_file(graph::StateId(s))) continue;
    const graph::ValueId outgoing = graph.node(state.write).inputs[0];
    Box whole;
    for (int64_t dim : state.type.shape.at(1)) whole.push_back({0, dim});
    const bool stored =
        std::any_of(states_[s].instances.begin(), states_[s].instances.end(), [&](InstanceId id) {
          return subject_.program.instances[id.index()].value == outgoing &&
                 held_[id.index()].over(whole).least == 1;
        });
    if (stored) continue;
    return {Verdict::kStateOrder, at(subject_) + "state variable " + state.name +
                                      ": expected all of its new value to be stored in the spill "
                                      "file, received none or a part"};
  }
  return ok();
}

Validation Replay::run_output(const Site& site, InstanceId source) {
  const std::vector<Range> windows = windows_of(site);
  const SiteOperand& operand = site.reads[0];
  const Box rows = region(operand, windows);
  if (Validation v = read(site, operand, rows); !v.ok()) return v;
  const graph::ValueId value = subject_.program.instances[source.index()].value;
  const Shape& shape = subject_.source.graph.value(value).type.shape;
  for (size_t d = 0; d < rows.size(); ++d) {
    const int64_t sample = shape[0].count;
    const bool samples =
        d == 0 && shape.has_batch() && rows[0].begin % sample == 0 && rows[0].end % sample == 0;
    if (samples || rows[d] == Range{0, operand.dims[d]}) continue;
    return {
        Verdict::kNotCuttable,
        at(subject_, site) + "an output is handed out in whole samples, received " + text(rows)};
  }
  int64_t& next = handed_out_[value.index()];
  const Range row = rows.empty() ? Range{0, 1} : rows[0];
  const int64_t expected = std::max<int64_t>(next, 0);
  if (row.begin == expected) {
    next = row.end;
    return ok();
  }
  return {row.begin < expected ? Verdict::kRepeatedNode : Verdict::kMissingNode,
          fmt::format("{}expected rows from {}, received {}", at(subject_, site), expected,
                      rows_text(row))};
}

Validation Replay::check_end() const {
  const graph::Graph& graph = subject_.source.graph;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Box whole;
    for (const graph::Axis& axis : graph::axes_of(graph, graph::NodeId(n))) {
      whole.push_back({0, axis.extent.at(subject_.source.batch)});
    }
    if (computed_[n].over(whole).least == 1) continue;
    const bool writes_state = graph.nodes[n].writes.valid();
    return {writes_state ? Verdict::kStateOrder : Verdict::kMissingNode,
            at(subject_) + "node " + graph.nodes[n].name +
                ": expected a call for all of its rows, received none or a part"};
  }
  for (graph::ValueId output : graph.outputs) {
    const std::vector<int64_t> dims = graph.value(output).type.shape.at(subject_.source.batch);
    const int64_t rows = dims.empty() ? 1 : dims[0];
    if (handed_out_[output.index()] == rows) continue;
    return {Verdict::kMissingNode, at(subject_) + "output %" + graph.value(output).name +
                                       ": expected all of its rows to be handed out"};
  }
  return check_all_stored();
}

}  // namespace plimsoll::plan::referee
