#include "plan/tree/lasting_packs.h"

#include <algorithm>
#include <span>
#include <variant>

#include "plan/core/walk.h"
#include "plan/facts/estimate.h"
#include "plan/facts/traffic.h"

namespace plimsoll::plan {
namespace {

bool packs_constant(const graph::Graph& graph, const graph::Node& node) {
  if (!node.op->traits().pack) return false;
  const graph::Value& source = graph.value(node.inputs[0]);
  return source.kind == graph::ValueKind::kState && !graph.state(source.state).write.valid();
}

// The instances that the calls of these numbers write.
std::vector<InstanceId> find_packed(const ProgramPlan& program, std::span<const int64_t> packs) {
  std::vector<InstanceId> packed;
  walk_items(program, [&](const Item& item, int64_t number, LoopId) {
    if (std::ranges::binary_search(packs, number)) {
      packed.push_back(std::get<Call>(item).outputs[0]);
    }
  });
  return packed;
}

// Where an instance or scratch lies in the arena, half-open.
Interval find_place(const ProgramPlan& program, const Buffer& buffer,
                    std::span<const Bytes> scratch) {
  const int64_t begin = buffer.instances.empty()
                            ? scratch[static_cast<size_t>(buffer.scratch_of)].count()
                            : program.instances[buffer.instances.front().index()].offset.count();
  return {begin, begin + buffer.bytes.count()};
}

// By number of the call.
std::vector<Bytes> find_scratch_offsets(const ProgramPlan& program) {
  std::vector<Bytes> offsets;
  walk_items(program, [&](const Item& item, int64_t number, LoopId) {
    offsets.resize(static_cast<size_t>(number) + 1);
    if (const auto* call = std::get_if<Call>(&item)) offsets.back() = call->scratch_offset;
  });
  return offsets;
}

}  // namespace

bool packs_constants(const graph::Graph& graph) {
  return std::ranges::any_of(graph.nodes,
                             [&](const graph::Node& node) { return packs_constant(graph, node); });
}

std::vector<int64_t> find_constant_packs(const ProgramPlan& program, const graph::Graph& graph) {
  std::vector<int64_t> packs;
  walk_items(program, [&](const Item& item, int64_t number, LoopId around) {
    const auto* call = std::get_if<Call>(&item);
    if (call == nullptr || around.valid() || !packs_constant(graph, graph.node(call->node))) {
      return;
    }
    const Instance& source = program.instances[call->inputs[0].index()];
    if (source.space == Space::kState && call->outputs[0].valid()) packs.push_back(number);
  });
  return packs;
}

std::vector<int64_t> find_lasting_packs(const ProgramPlan& program, const graph::Graph& graph) {
  const std::vector<int64_t> packs = find_constant_packs(program, graph);
  if (packs.empty()) return {};
  const std::vector<InstanceId> packed = find_packed(program, packs);
  const std::vector<Buffer> buffers = find_buffers(program);
  const std::vector<Bytes> scratch = find_scratch_offsets(program);
  std::vector<int64_t> lasting;
  for (size_t i = 0; i < packs.size(); ++i) {
    const auto own = std::ranges::find_if(buffers, [&](const Buffer& buffer) {
      return std::ranges::find(buffer.instances, packed[i]) != buffer.instances.end();
    });
    if (own == buffers.end() || own->instances.size() > 1) continue;
    const Interval place = find_place(program, *own, scratch);
    const bool alone = std::ranges::none_of(buffers, [&](const Buffer& other) {
      if (other == *own) return false;
      const Interval there = find_place(program, other, scratch);
      return there.begin < place.end && place.begin < there.end;
    });
    if (alone) lasting.push_back(packs[i]);
  }
  return lasting;
}

void keep_packs(const ProgramPlan& program, const std::vector<int64_t>& packs,
                std::vector<Buffer>& buffers) {
  const std::vector<InstanceId> packed = find_packed(program, packs);
  int64_t end = 0;
  for (const Buffer& buffer : buffers) end = std::max(end, buffer.live.end);
  for (Buffer& buffer : buffers) {
    const bool kept = std::ranges::any_of(buffer.instances, [&](InstanceId instance) {
      return std::ranges::find(packed, instance) != packed.end();
    });
    if (kept) buffer.live = {0, end};
  }
}

std::vector<double> estimate_again(const ProgramPlan& program, ProgramFacts& facts, bool waits) {
  std::vector<double> seconds = estimate_items(program, facts);
  if (waits) wait_for_memory(program, program.arena_bytes, facts, seconds);
  for (int64_t pack : find_lasting_packs(program, facts.graph())) {
    seconds[static_cast<size_t>(pack)] = 0;
  }
  return seconds;
}

}  // namespace plimsoll::plan
