#include <algorithm>

#include "base/format.h"
#include "graph/lanes.h"
#include "graph/rank_message.h"
#include "plan/validate/validator_impl.h"

// What single operands must be: forms that kernels accept, scopes around all uses, sizes, the
// places of states and of the spill file, and memory that may be reused.

namespace plimsoll::plan::referee {
namespace {

const Instance& instance_of(const Subject& subject, InstanceId id) {
  return subject.program.instances[id.index()];
}

// Whether a use is inside of the instance's scope.
bool is_around(const Site& site, LoopId scope) {
  return !scope.valid() ||
         std::find(site.around.begin(), site.around.end(), scope) != site.around.end();
}

Validation check_forms(const Subject& subject, const Site& site) {
  const auto form_of = [&](const SiteOperand& operand) -> const std::string& {
    return instance_of(subject, operand.instance).form;
  };
  if (const Call* call = site.call()) {
    const graph::Node& node = subject.source.graph.node(call->node);
    const auto inputs = graph::input_types(subject.source.graph, call->node);
    const auto outputs = graph::output_types(subject.source.graph, call->node);
    for (size_t i = 0; i < site.reads.size(); ++i) {
      const std::string& form = form_of(site.reads[i]);
      if (form.empty()) continue;
      const auto accepted =
          node.op->saved_forms({node.attributes, inputs, outputs}, static_cast<int>(i));
      if (std::find(accepted.begin(), accepted.end(), form) != accepted.end()) continue;
      return {Verdict::kBadForm,
              fmt::format("{}input {}: expected a form that the node accepts, received {}",
                          at(subject, site), i, form)};
    }
  } else if (std::holds_alternative<Encode>(*site.item)) {
    if (!form_of(site.reads[0]).empty() || !is_form_known(form_of(site.writes[0]))) {
      return {Verdict::kBadForm, at(subject, site) + "expected a plain source and a known form, " +
                                     "received \"" + form_of(site.reads[0]) + "\" and \"" +
                                     form_of(site.writes[0]) + "\""};
    }
  } else if (std::holds_alternative<BeginTransfer>(*site.item)) {
    if (form_of(site.reads[0]) != form_of(site.writes[0])) {
      return {Verdict::kBadForm, at(subject, site) + "a transfer does not change the form"};
    }
  }
  return ok();
}

// Spill instances are touched by transfers only; one end of a transfer is in the file.
Validation check_spaces(const Subject& subject, const Site& site) {
  const auto is_spill = [&](const SiteOperand& operand) {
    return operand.instance.valid() &&
           instance_of(subject, operand.instance).space == Space::kSpill;
  };
  if (std::holds_alternative<BeginTransfer>(*site.item)) {
    if (is_spill(site.reads[0]) != is_spill(site.writes[0])) return ok();
    return {Verdict::kBadReference,
            at(subject, site) + "expected one end in memory and one in the spill file"};
  }
  if (std::none_of(site.reads.begin(), site.reads.end(), is_spill) &&
      std::none_of(site.writes.begin(), site.writes.end(), is_spill)) {
    return ok();
  }
  return {Verdict::kBadReference,
          at(subject, site) + "an operand lies in the spill file, expected it in memory"};
}

// What an exchange still writes to is read by nobody but the node that waits for it.
Validation check_under_way(const Subject& subject, const Site& site) {
  const Call* call = site.call();
  const graph::Graph& graph = subject.source.graph;
  if (call != nullptr && graph.node(call->node).attributes.has(graph::kWaits)) return ok();
  for (const SiteOperand& operand : site.reads) {
    if (!operand.instance.valid()) continue;
    if (!graph::is_under_way(graph, instance_of(subject, operand.instance).value)) continue;
    return {Verdict::kMissingWait, at(subject, site) + name_of(subject, operand.instance) +
                                       " is read while an exchange writes to it"};
  }
  return ok();
}

// What happens once a step, whoever plans it.
Validation check_once(const Subject& subject, const Site& site) {
  const Call* call = site.call();
  if (call == nullptr || call->clone == 0) return ok();
  const graph::OpTraits traits = subject.source.graph.node(call->node).op->traits();
  if (traits.state_write) {
    return {Verdict::kStateOrder, at(subject, site) + "a state write is never cloned"};
  }
  if (!traits.exchanges) return ok();
  return {Verdict::kRepeatedNode, at(subject, site) + "an exchange with ranks is never cloned"};
}

Validation check_scopes(const Subject& subject, const Site& site) {
  for (const auto* operands : {&site.reads, &site.writes}) {
    for (const SiteOperand& operand : *operands) {
      if (!operand.instance.valid()) continue;
      const LoopId scope = instance_of(subject, operand.instance).scope;
      if (is_around(site, scope)) continue;
      return {Verdict::kWrongSize, at(subject, site) + name_of(subject, operand.instance) +
                                       " has as its scope a loop that is not around this use"};
    }
  }
  return ok();
}

// Sums over the batch have a partial for each that waits to be added up.
int64_t partials_of(const Subject& subject, graph::ValueId id) {
  const graph::Value& value = subject.source.graph.value(id);
  if (value.kind != graph::ValueKind::kNode || subject.program.lane == 0) return 1;
  const graph::Op& op = *subject.source.graph.node(value.producer).op;
  for (const graph::Axis& axis : graph::axes_of(subject.source.graph, value.producer)) {
    if (axis.outputs[static_cast<size_t>(value.output)].dimension >= 0) continue;
    if (!graph::is_summed_by_lanes(op, axis, subject.program.lane)) continue;
    return graph::partial_count(graph::filled_lanes(subject.source.batch, subject.program.lane));
  }
  return 1;
}

// Bytes of one iteration of the scope, as the item that writes the instance cuts it.
Bytes needed_bytes(const Subject& subject, const Sites& sites, InstanceId id) {
  const Instance& instance = instance_of(subject, id);
  const graph::ValueType& type = subject.source.graph.value(instance.value).type;
  std::vector<int64_t> dims = type.shape.at(subject.source.batch);
  if (sites.writer[id.index()] >= 0) {
    const Site& site = sites.sites[static_cast<size_t>(sites.writer[id.index()])];
    const auto operand =
        std::find_if(site.writes.begin(), site.writes.end(),
                     [&](const SiteOperand& write) { return write.instance == id; });
    for (const Cut& cut : operand->cuts) {
      for (LoopId loop : site.axes[static_cast<size_t>(cut.axis)].loops) {
        if (!instance.scope.valid() || loop > instance.scope) continue;
        const int64_t rows = longest_iteration(subject.program, loop);
        int64_t& dim = dims[static_cast<size_t>(cut.dimension)];
        dim = std::min(dim, (rows - 1) * cut.use.stride + cut.use.before + cut.use.after + 1);
      }
    }
  }
  if (is_bits(subject, id)) {
    const int64_t samples = type.shape.has_batch() ? dims[0] / type.shape[0].count : 1;
    return row_bytes(DType::kBits, type.shape) * samples;
  }
  Bytes bytes = element_bytes(type.dtype);
  for (int64_t dim : dims) bytes = bytes * dim;
  const bool folded = sites.writer[id.index()] >= 0 &&
                      sites.sites[static_cast<size_t>(sites.writer[id.index()])].call() != nullptr;
  return folded ? graph::bytes_of_partials(bytes, partials_of(subject, instance.value)) : bytes;
}

Validation check_size(const Subject& subject, const Sites& sites, InstanceId id) {
  const Instance& instance = instance_of(subject, id);
  if (!instance.form.empty() && !is_form_known(instance.form)) {
    return {Verdict::kBadForm,
            at(subject) + name_of(subject, id) + ": unknown form " + instance.form};
  }
  const Bytes needed = needed_bytes(subject, sites, id);
  if (instance.bytes == needed) return ok();
  return {Verdict::kWrongSize,
          fmt::format("{}{}: expected {} bytes, received {}", at(subject), name_of(subject, id),
                      needed.count(), instance.bytes.count())};
}

Validation check_place_in_file(const Subject& subject, InstanceId id) {
  const Instance& instance = instance_of(subject, id);
  const auto state = static_cast<size_t>(find_state_in_file(subject, id));
  const StatePlacement* place = subject.states.places[state];
  if (place != nullptr && place->offset == instance.offset && place->bytes == instance.bytes &&
      !instance.scope.valid()) {
    return ok();
  }
  return {Verdict::kBadReference, at(subject) + name_of(subject, id) +
                                      ": expected the offset and bytes of its state variable in "
                                      "the spill file, and the root as its scope"};
}

// An instance in state memory lies where its state lies.
Validation check_state_place(const Subject& subject, const Sites& sites, InstanceId id) {
  const Instance& instance = instance_of(subject, id);
  if (find_state_in_file(subject, id) >= 0) return check_place_in_file(subject, id);
  if (instance.space != Space::kState) return ok();
  const Instance& owner = instance_of(subject, sites.group[id.index()]);
  const auto lies_there = [&](int state) {
    const StatePlacement* placement = subject.states.places[static_cast<size_t>(state)];
    return placement != nullptr && placement->space == Space::kState &&
           placement->offset == instance.offset && placement->bytes == instance.bytes &&
           !instance.scope.valid();
  };
  const std::vector<int>& incoming = subject.states.values[owner.value.index()].incoming;
  const std::vector<int>& outgoing = subject.states.values[instance.value.index()].outgoing;
  if (owner.space == Space::kState && std::any_of(incoming.begin(), incoming.end(), lies_there)) {
    return ok();
  }
  if (std::any_of(outgoing.begin(), outgoing.end(), lies_there)) return ok();
  return {Verdict::kBadReference, at(subject) + name_of(subject, id) +
                                      ": expected the offset and bytes of the state variable that "
                                      "it is read from or written to, and the root as its scope"};
}

bool cuts_like(const SiteOperand& input, const SiteOperand& output, int axis) {
  const auto find = [axis](const SiteOperand& operand) -> const Cut* {
    for (const Cut& cut : operand.cuts) {
      if (cut.axis == axis) return &cut;
    }
    return nullptr;
  };
  const Cut* in = find(input);
  const Cut* out = find(output);
  return in != nullptr && out != nullptr && in->use == out->use &&
         in->use.before + in->use.after < in->use.stride;
}

// The operator allows it, both have one place and size, and no block reads what an earlier block
// has overwritten.
Validation check_in_place(const Subject& subject, const Sites& sites, InstanceId id) {
  const Instance& instance = instance_of(subject, id);
  if (!instance.in_place.valid()) return ok();
  const Instance& source = instance_of(subject, instance.in_place);
  const auto bad = [&](const std::string& what) -> Validation {
    return {Verdict::kBadInPlace, at(subject) + name_of(subject, id) + " in place of " +
                                      name_of(subject, instance.in_place) + ": " + what};
  };
  if (source.offset != instance.offset || source.bytes != instance.bytes ||
      source.scope != instance.scope || source.space != instance.space || !source.form.empty() ||
      source.space == Space::kSpill) {
    return bad("expected plain instances of one place, size and scope");
  }
  const Site& site = sites.sites[static_cast<size_t>(sites.writer[id.index()])];
  const Call* call = site.call();
  if (call == nullptr) return bad("only a call takes memory over");
  const auto output =
      std::find(call->outputs.begin(), call->outputs.end(), id) - call->outputs.begin();
  const auto uses = std::count(call->inputs.begin(), call->inputs.end(), instance.in_place);
  if (uses != 1) return bad("expected it as one operand of the call");
  const auto input =
      std::find(call->inputs.begin(), call->inputs.end(), instance.in_place) - call->inputs.begin();
  const graph::Node& node = subject.source.graph.node(call->node);
  const auto inputs = graph::input_types(subject.source.graph, call->node);
  const auto outputs = graph::output_types(subject.source.graph, call->node);
  const auto aliases = node.op->aliases({node.attributes, inputs, outputs});
  const graph::Alias wanted{static_cast<int>(input), static_cast<int>(output)};
  if (std::find(aliases.begin(), aliases.end(), wanted) == aliases.end()) {
    return bad("operator " + std::string(node.op->name()) + " does not allow it");
  }
  for (size_t a = 0; a < site.axes.size(); ++a) {
    if (site.axes[a].is_one_call() && !site.axes[a].row_exact) continue;
    if (!cuts_like(site.reads[static_cast<size_t>(input)], site.writes[static_cast<size_t>(output)],
                   static_cast<int>(a))) {
      return bad("axis " + site.axes[a].name + " cuts input and output in different ways");
    }
  }
  return ok();
}

}  // namespace

Validation check_operands(const Subject& subject, Sites& sites) {
  for (const Site& site : sites.sites) {
    if (Validation v = check_spaces(subject, site); !v.ok()) return v;
    if (Validation v = check_forms(subject, site); !v.ok()) return v;
    if (Validation v = check_once(subject, site); !v.ok()) return v;
    if (Validation v = check_under_way(subject, site); !v.ok()) return v;
    if (Validation v = check_scopes(subject, site); !v.ok()) return v;
  }
  for (size_t i = 0; i < subject.program.instances.size(); ++i) {
    if (Validation v = check_size(subject, sites, InstanceId(i)); !v.ok()) return v;
    if (Validation v = check_state_place(subject, sites, InstanceId(i)); !v.ok()) return v;
    if (Validation v = check_in_place(subject, sites, InstanceId(i)); !v.ok()) return v;
  }
  return ok();
}

}  // namespace plimsoll::plan::referee
