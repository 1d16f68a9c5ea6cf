#include "exec/poison.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "graph/rank_message.h"

namespace plimsoll::exec {
namespace {

constexpr auto kPattern = std::byte{0xFF};

std::string bytes_text(int64_t begin, int64_t end) {
  return fmt::format("bytes [{}, {}) of the arena", begin, end);
}

}  // namespace

Poison::Poison(const TableContext& context, const Arena& arena)
    : context_(context), arena_(arena.pages()) {
  watch_states();
  watch_buffers();
  std::ranges::sort(watched_, {}, &Watched::begin);
  for (size_t i = 0; i < watched_.size(); ++i) by_state_[watched_[i].name] = i;
  // Names of buffers are those of their instances: the tables are made once the order is known.
  for (const plan::Buffer& buffer : plan::find_buffers(context.program_plan)) {
    if (buffer.instances.empty()) continue;
    const plan::Instance& first = context.program_plan.instances[buffer.instances[0].index()];
    const int64_t begin = first.offset.count() + context.plan.state_bytes.count();
    for (size_t i = 0; i < watched_.size(); ++i) {
      if (watched_[i].begin != begin || watched_[i].live != buffer.live) continue;
      for (plan::InstanceId id : buffer.instances) by_instance_[id.raw()] = i;
    }
  }
  for (size_t i = 0; i < context.program_plan.instances.size(); ++i) {
    const plan::Instance& instance = context.program_plan.instances[i];
    if (instance.space != plan::Space::kState) continue;
    for (size_t w = 0; w < watched_.size(); ++w) {
      const bool state = watched_[w].live.end == INT64_MAX;
      if (state && watched_[w].begin == instance.offset.count()) {
        by_instance_[static_cast<int32_t>(i)] = w;
      }
    }
  }
  written_.resize(watched_.size());
}

void Poison::watch_states() {
  for (const plan::StatePlacement& state : context_.plan.states) {
    if (state.space != plan::Space::kState) continue;
    watched_.push_back({{0, INT64_MAX},
                        state.offset.count(),
                        (state.offset + state.bytes).count(),
                        "state " + state.name,
                        0,
                        0});
  }
}

void Poison::watch_buffers() {
  const graph::Graph& graph = context_.program.graph;
  const int64_t base = context_.plan.state_bytes.count();
  for (const plan::Buffer& buffer : plan::find_buffers(context_.program_plan)) {
    if (buffer.instances.empty()) continue;
    const plan::InstanceId id = buffer.instances[0];
    const plan::Instance& first = context_.program_plan.instances[id.index()];
    watched_.push_back({buffer.live, base + first.offset.count(),
                        base + (first.offset + buffer.bytes).count(),
                        fmt::format("%{} ({})", id.raw(), graph.value(first.value).name), 0, 0});
  }
}

uint64_t Poison::checksum(const Watched& watched) const {
  return hash_bytes(arena_.subspan(static_cast<size_t>(watched.begin),
                                   static_cast<size_t>(watched.end - watched.begin)));
}

void Poison::fill(int64_t begin, int64_t end) {
  std::fill(arena_.begin() + begin, arena_.begin() + end, kPattern);
}

void Poison::start() {
  int64_t dead = 0;
  for (const Watched& watched : watched_) {
    if (watched.live.end != INT64_MAX) continue;
    if (dead < watched.begin) fill(dead, watched.begin);
    dead = std::max(dead, watched.end);
  }
  fill(dead, static_cast<int64_t>(arena_.size()));
  for (Watched& watched : watched_) {
    watched.checksum = checksum(watched);
    watched.writers = 0;
  }
}

void Poison::before(const Step& step, const ProgramTables& tables) {
  if (step.kind != StepKind::kCall) return;
  const CallTable& call = tables.calls[step.index];
  fill(call.scratch, call.scratch + call.call->scratch_bytes.count());
}

std::span<const plan::InstanceId> Poison::outputs_of(const Step& step,
                                                     const ProgramTables& tables) {
  outputs_.clear();
  switch (step.kind) {
    case StepKind::kCall:
      for (plan::InstanceId id : tables.calls[step.index].call->outputs) {
        if (id.valid()) outputs_.push_back(id);
      }
      break;
    case StepKind::kFeed:
    case StepKind::kEncode:
    case StepKind::kBeginTransfer:
    case StepKind::kWaitTransfer:
      outputs_.push_back(tables.copies[step.index].target.instance);
      break;
    default:
      break;
  }
  return outputs_;
}

void Poison::mark_written(plan::InstanceId id, int change) {
  const auto found = by_instance_.find(id.raw());
  if (found == by_instance_.end()) return;  // in the spill file
  written_[found->second] = true;
  watched_[found->second].writers += change;
}

// What ranks exchange is written from the call that begins it until the one that waits for it ends.
void Poison::mark_under_way(const plan::Call& call) {
  const auto mark = [&](plan::InstanceId id, int change) {
    if (!id.valid()) return;
    const plan::Instance& instance = context_.program_plan.instances[id.index()];
    if (graph::is_under_way(context_.program.graph, instance.value)) mark_written(id, change);
  };
  for (plan::InstanceId id : call.inputs) mark(id, -1);
  for (plan::InstanceId id : call.outputs) mark(id, 1);
}

std::string Poison::describe(const Step& step, const ProgramTables& tables) const {
  const std::string where = "program " + context_.program_plan.name + ", ";
  if (step.kind == StepKind::kCall) {
    const plan::Call& call = *tables.calls[step.index].call;
    return where + "call " + context_.program.graph.node(call.node).name;
  }
  if (step.kind == StepKind::kLoopBegin || step.kind == StepKind::kLoopEnd) {
    return fmt::format("{}loop L{}", where, step.index);
  }
  const CopyTable& copy = tables.copies[step.index];
  const plan::InstanceId id =
      copy.target.instance.valid() ? copy.target.instance : copy.source.instance;
  return fmt::format("{}copy of %{}", where, id.raw());
}

void Poison::check_dead(int64_t begin, int64_t end, const std::string& item) const {
  const auto first = arena_.begin() + begin;
  const auto wrong =
      std::find_if(first, arena_.begin() + end, [](std::byte b) { return b != kPattern; });
  if (wrong == arena_.begin() + end) return;
  const int64_t at = wrong - arena_.begin();
  throw Error(
      ErrorKind::kInternal,
      fmt::format(
          "{}: expected {}, which belong to nothing that is alive, untouched; byte {} was written.",
          item, bytes_text(begin, end), at));
}

void Poison::after(const Step& step, const ProgramTables& tables) {
  const std::string item = describe(step, tables);
  std::fill(written_.begin(), written_.end(), false);
  const int change = step.kind == StepKind::kBeginTransfer  ? 1
                     : step.kind == StepKind::kWaitTransfer ? -1
                                                            : 0;
  for (plan::InstanceId id : outputs_of(step, tables)) mark_written(id, change);
  int64_t scratch_begin = 0;
  int64_t scratch_end = 0;
  if (step.kind == StepKind::kCall) {
    const CallTable& call = tables.calls[step.index];
    mark_under_way(*call.call);
    scratch_begin = call.scratch;
    scratch_end = scratch_begin + call.call->scratch_bytes.count();
    if (call.kind == CallTable::Kind::kStateWrite) {
      const graph::StateId state = context_.program.graph.node(call.call->node).writes;
      written_[by_state_.at("state " + context_.program.graph.state(state).name)] = true;
    }
  }
  const bool ends_now = step.kind != StepKind::kLoopBegin;
  int64_t dead = 0;
  const auto check_until = [&](int64_t end) {
    // Scratch is alive during its call; it may lie anywhere in a dead range.
    if (scratch_begin < scratch_end && dead < scratch_end && scratch_begin < end) {
      if (dead < scratch_begin) check_dead(dead, scratch_begin, item);
      dead = std::max(dead, scratch_end);
    }
    if (dead < end) check_dead(dead, end, item);
  };
  for (size_t i = 0; i < watched_.size(); ++i) {
    Watched& watched = watched_[i];
    if (step.number < watched.live.begin || step.number >= watched.live.end) continue;
    check_until(watched.begin);
    dead = std::max(dead, watched.end);
    if (watched.writers > 0) continue;  // another thread writes it until the wait
    if (written_[i]) {
      watched.checksum = checksum(watched);
    } else if (watched.checksum != checksum(watched)) {
      throw Error(ErrorKind::kInternal, item + ": expected " + watched.name + ", " +
                                            bytes_text(watched.begin, watched.end) +
                                            ", untouched; it was written.");
    }
  }
  check_until(static_cast<int64_t>(arena_.size()));
  fill(scratch_begin, scratch_end);
  for (Watched& watched : watched_) {
    if (!ends_now || watched.live.end != step.number + 1) continue;
    fill(watched.begin, watched.end);
    watched.checksum = checksum(watched);
  }
}

}  // namespace plimsoll::exec
