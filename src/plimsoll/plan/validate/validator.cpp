#include "plan/validate/validator.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/format.h"
#include "base/shape.h"
#include "graph/lanes.h"
#include "plan/validate/validator_impl.h"

// The plan as a whole: whose plan it is, its blocks, its state region and its totals.

namespace plimsoll::plan {
namespace referee {

Validation ok() { return {}; }

bool exists(const ProgramPlan& program, InstanceId id) {
  return id.valid() && id.index() < program.instances.size();
}

int find_state_in_file(const Subject& subject, InstanceId id) {
  const Instance& instance = subject.program.instances[id.index()];
  if (instance.space != Space::kSpill || !instance.form.empty()) return -1;
  int first = -1;
  const StateTable::OfValue& states = subject.states.values[instance.value.index()];
  for (const std::vector<int>* some : {&states.incoming, &states.outgoing}) {
    for (int s : *some) {
      if (!subject.states.in_file(static_cast<size_t>(s)) || (first >= 0 && first <= s)) continue;
      first = s;
    }
  }
  return first;
}

StateTable find_states(const Plan& plan, const graph::Graph& graph) {
  std::unordered_map<std::string_view, const StatePlacement*> places;
  for (const StatePlacement& place : plan.states) places.emplace(place.name, &place);
  StateTable table;
  table.values.resize(graph.values.size());
  for (size_t s = 0; s < graph.states.size(); ++s) {
    const graph::StateVariable& state = graph.states[s];
    const auto place = places.find(state.name);
    table.places.push_back(place == places.end() ? nullptr : place->second);
    const auto number = static_cast<int>(s);
    if (state.incoming.valid()) {
      table.values[state.incoming.index()].incoming.push_back(number);
    }
    if (!state.write.valid()) continue;
    table.values[graph.node(state.write).inputs[0].index()].outgoing.push_back(number);
  }
  return table;
}

bool is_form_known(std::string_view form) { return form.ends_with("_bits"); }

bool is_bits(const Subject& subject, InstanceId id) {
  const Instance& instance = subject.program.instances[id.index()];
  if (!instance.form.empty()) return is_form_known(instance.form);
  return subject.source.graph.value(instance.value).type.dtype == DType::kBits;
}

int64_t longest_iteration(const ProgramPlan& program, LoopId loop) {
  // The first iteration of a nested loop is as long as any: its extent is a whole iteration around
  // it.
  const Loop& table = program.loops[loop.index()];
  const bool lanes = table.axis.of_samples() && program.lane > 0;
  return lanes ? std::min(table.slice, program.lane) : table.slice;
}

Box region(const SiteOperand& operand, const std::vector<Range>& windows) {
  Box box;
  box.reserve(operand.dims.size());
  for (int64_t dim : operand.dims) box.push_back({0, dim});
  for (const Cut& cut : operand.cuts) {
    const Range& rows = windows[static_cast<size_t>(cut.axis)];
    Range& range = box[static_cast<size_t>(cut.dimension)];
    const int64_t begin = rows.begin * cut.use.stride - cut.use.before;
    const int64_t end = (rows.end - 1) * cut.use.stride + cut.use.after + 1;
    range = {std::max(range.begin, begin), std::min(range.end, end)};
  }
  return box;
}

std::string at(const Subject& subject) { return "program " + subject.program.name + ": "; }

std::string at(const Subject& subject, const Site& site) {
  const auto number = [](InstanceId id) { return fmt::format("%{}", id.raw()); };
  std::string item;
  if (const auto* call = std::get_if<Call>(site.item)) {
    const bool known = call->node.valid() && call->node.index() < subject.source.graph.nodes.size();
    item = "call " + (known ? subject.source.graph.node(call->node).name : "of an unknown node");
    if (call->clone > 0) item += fmt::format(" (clone {})", call->clone);
  } else if (const auto* encode = std::get_if<Encode>(site.item)) {
    item = "encode " + number(encode->source) + " -> " + number(encode->target);
  } else if (const auto* feed = std::get_if<Feed>(site.item)) {
    item = "feed " + number(feed->target);
  } else if (const auto* output = std::get_if<Output>(site.item)) {
    item = "output " + number(output->source);
  } else if (const auto* begin = std::get_if<BeginTransfer>(site.item)) {
    item = fmt::format("begin t{}", begin->number);
  } else if (const auto* wait = std::get_if<WaitTransfer>(site.item)) {
    item = fmt::format("wait t{}", wait->number);
  } else if (const auto* enter = std::get_if<Enter>(site.item)) {
    item = fmt::format("loop L{}", enter->loop.raw());
  }
  return at(subject) + item + ": ";
}

std::string name_of(const Subject& subject, InstanceId id) {
  if (!exists(subject.program, id)) return "an instance that does not exist";
  const Instance& instance = subject.program.instances[id.index()];
  std::string name =
      fmt::format("%{} ({}", id.raw(), subject.source.graph.value(instance.value).name);
  if (!instance.form.empty()) name += ", " + instance.form;
  if (instance.copy > 0) name += fmt::format(", copy {}", instance.copy);
  return name + ")";
}

std::string text(const Box& box) {
  std::string result = "(";
  for (size_t d = 0; d < box.size(); ++d) {
    if (d > 0) result += ", ";
    result += fmt::format("{}..{}", box[d].begin, box[d].end);
  }
  return result + ")";
}

namespace {

Validation wrong_program(const std::string& what, const std::string& expected,
                         const std::string& received) {
  return {Verdict::kWrongProgram,
          "plan: " + what + ": expected " + expected + ", received " + received};
}

Validation check_programs(const Plan& plan, const graph::ProgramSet& programs,
                          const graph::KernelCatalog& catalog) {
  if (plan.fingerprint != graph::fingerprint(programs)) {
    return wrong_program("fingerprint", std::to_string(graph::fingerprint(programs)),
                         std::to_string(plan.fingerprint));
  }
  if (plan.kernel_set != catalog.kernel_set()) {
    return wrong_program("kernel set", catalog.kernel_set(), plan.kernel_set);
  }
  if (plan.block_set != catalog.block_set()) {
    return wrong_program("block set", std::to_string(catalog.block_set()),
                         std::to_string(plan.block_set));
  }
  if (plan.parts != catalog.part_count()) {
    return wrong_program("parts", std::to_string(catalog.part_count()), std::to_string(plan.parts));
  }
  if (plan.programs.size() != programs.programs.size()) {
    return wrong_program("programs", std::to_string(programs.programs.size()),
                         std::to_string(plan.programs.size()));
  }
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    const graph::Program& source = programs.programs[p];
    const ProgramPlan& program = plan.programs[p];
    const bool lanes = plan.lanes == source.lanes && program.lane == graph::lane_length(source);
    if (program.name == source.name && program.batch == source.batch && lanes) continue;
    return wrong_program(
        fmt::format("program {}", p),
        fmt::format("{} of batch {}, {} lanes", source.name, source.batch, source.lanes),
        fmt::format("{} of batch {}, lanes of {}", program.name, program.batch, program.lane));
  }
  return ok();
}

Validation check_blocks(const Subject& subject) {
  const graph::Graph& graph = subject.source.graph;
  if (subject.program.blocks.size() != graph.nodes.size()) {
    return {Verdict::kWrongBlock, fmt::format("{}expected {} blocks, received {}", at(subject),
                                              graph.nodes.size(), subject.program.blocks.size())};
  }
  const auto list = [](const graph::Block& block) {
    std::string result = "(";
    for (int64_t extent : block) result += fmt::format(" {}", extent);
    return result + " )";
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const graph::Block expected = subject.catalog.block(graph, graph::NodeId(n));
    if (expected == subject.program.blocks[n]) continue;
    return {Verdict::kWrongBlock, at(subject) + "node " + graph.nodes[n].name +
                                      ": expected block " + list(expected) + ", received " +
                                      list(subject.program.blocks[n])};
  }
  return ok();
}

Validation check_state_region(const Plan& plan, const graph::ProgramSet& programs) {
  const std::vector<graph::StateVariable> states = graph::states_of(programs);
  if (states.size() != plan.states.size()) {
    return {Verdict::kBadReference, fmt::format("plan: expected {} state variables, received {}",
                                                states.size(), plan.states.size())};
  }
  std::unordered_multimap<std::string_view, const StatePlacement*> places;
  for (const StatePlacement& place : plan.states) places.emplace(place.name, &place);
  for (const graph::StateVariable& state : states) {
    const size_t count = places.count(state.name);
    const std::string where = "plan: state " + state.name + ": ";
    if (count != 1) {
      return {Verdict::kBadReference,
              fmt::format("{}expected one place, received {}", where, count)};
    }
    const StatePlacement& place = *places.find(state.name)->second;
    const Bytes bytes = tensor_bytes(state.type.dtype, state.type.shape, 1);
    if (place.bytes != bytes) {
      return {Verdict::kWrongSize, fmt::format("{}expected {} bytes, received {}", where,
                                               bytes.count(), place.bytes.count())};
    }
    if (place.offset.count() % kAlignment.count() != 0) {
      return {Verdict::kMisaligned, fmt::format("{}expected an offset that is a multiple of {}",
                                                where, kAlignment.count())};
    }
    const bool in_file = place.space == Space::kSpill;
    const Bytes region = in_file ? plan.spill_bytes : plan.state_bytes;
    if (place.offset < Bytes(0) || place.bytes > region || place.offset > region - place.bytes) {
      return {Verdict::kPeak, fmt::format("{}expected it inside of the {} of {} bytes", where,
                                          in_file ? "spill file" : "state region", region.count())};
    }
  }
  for (size_t i = 0; i < plan.states.size(); ++i) {
    for (size_t j = i + 1; j < plan.states.size(); ++j) {
      const StatePlacement& a = plan.states[i];
      const StatePlacement& b = plan.states[j];
      if (a.space != b.space) continue;
      if (a.offset >= b.offset + b.bytes || b.offset >= a.offset + a.bytes) continue;
      return {Verdict::kOverlap, "plan: states " + a.name + " and " + b.name + " share bytes"};
    }
  }
  return ok();
}

Validation check_totals(const Plan& plan) {
  Bytes largest;
  for (const ProgramPlan& program : plan.programs) largest = max(largest, program.arena_bytes);
  if (plan.arena_bytes == plan.state_bytes + largest &&
      plan.state_bytes.count() % kAlignment.count() == 0 && plan.spill_bytes >= Bytes(0)) {
    return ok();
  }
  return {Verdict::kPeak,
          fmt::format("plan: expected an arena of {} + {} bytes, received {}",
                      plan.state_bytes.count(), largest.count(), plan.arena_bytes.count())};
}

Validation check_program(const Subject& subject) {
  if (Validation v = check_blocks(subject); !v.ok()) return v;
  Sites sites;
  if (Validation v = build_sites(subject, sites); !v.ok()) return v;
  if (Validation v = check_operands(subject, sites); !v.ok()) return v;
  if (Validation v = replay(subject, sites); !v.ok()) return v;
  return check_memory(subject, sites);
}

}  // namespace
}  // namespace referee

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kValid:
      return "valid";
    case Verdict::kWrongProgram:
      return "wrong program";
    case Verdict::kWrongBlock:
      return "wrong block";
    case Verdict::kBadReference:
      return "bad reference";
    case Verdict::kMissingNode:
      return "missing node";
    case Verdict::kRepeatedNode:
      return "repeated node";
    case Verdict::kBadSlice:
      return "bad slice";
    case Verdict::kNotCuttable:
      return "not cuttable";
    case Verdict::kWrongSize:
      return "wrong size";
    case Verdict::kNotComputed:
      return "not computed";
    case Verdict::kIncompleteSum:
      return "incomplete sum";
    case Verdict::kBlockOrder:
      return "block order";
    case Verdict::kStateOrder:
      return "state order";
    case Verdict::kOverlap:
      return "overlap";
    case Verdict::kBadInPlace:
      return "bad in place";
    case Verdict::kBadForm:
      return "bad form";
    case Verdict::kScratch:
      return "scratch";
    case Verdict::kMissingWait:
      return "missing wait";
    case Verdict::kMisaligned:
      return "misaligned";
    case Verdict::kPeak:
      return "peak";
  }
  return "unknown";
}

Validation validate(const Plan& plan, const graph::ProgramSet& programs,
                    const graph::KernelCatalog& catalog) {
  using referee::Subject;
  if (Validation v = referee::check_programs(plan, programs, catalog); !v.ok()) return v;
  if (Validation v = referee::check_state_region(plan, programs); !v.ok()) return v;
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    const graph::Graph& graph = programs.programs[p].graph;
    const std::shared_ptr<const void> remembered = catalog.remember(graph);
    const referee::StateTable states = referee::find_states(plan, graph);
    const Subject subject{plan, plan.programs[p], programs.programs[p], catalog, states};
    if (Validation v = referee::check_program(subject); !v.ok()) return v;
  }
  return referee::check_totals(plan);
}

}  // namespace plimsoll::plan
