#include "exec/measure.h"

#include <algorithm>
#include <vector>

#include "base/process_memory.h"

namespace plimsoll::exec {
namespace {

void mark(std::vector<bool>& pages, Bytes begin, Bytes bytes) {
  if (bytes <= Bytes(0)) return;
  const int64_t last = (begin + bytes - Bytes(1)) / page_size();
  for (int64_t page = begin / page_size(); page <= last; ++page) {
    pages[static_cast<size_t>(page)] = true;
  }
}

// The pages, of `count`, in which state or a value of those programs lies.
std::vector<bool> pages_of_values(const plan::Plan& plan, std::span<const size_t> ran,
                                  size_t count) {
  std::vector<bool> pages(count, false);
  for (const plan::StatePlacement& state : plan.states) {
    if (state.space == plan::Space::kState) mark(pages, state.offset, state.bytes);
  }
  for (size_t p : ran) {
    for (const plan::Instance& instance : plan.programs[p].instances) {
      if (instance.space != plan::Space::kArena) continue;
      mark(pages, plan.state_bytes + instance.offset, instance.bytes);
    }
  }
  return pages;
}

}  // namespace

Bytes values_bytes(const plan::Plan& plan, std::span<const size_t> ran) {
  const int64_t count = round_up(plan.arena_bytes, page_size()) / page_size();
  const std::vector<bool> pages = pages_of_values(plan, ran, static_cast<size_t>(count));
  const Bytes bytes = page_size() * std::count(pages.begin(), pages.end(), true);
  return min(bytes, plan.arena_bytes);
}

TouchedPages measure_touched(const Executor& executor, const plan::Plan& plan,
                             std::span<const size_t> ran) {
  const std::vector<bool> resident =
      resident_pages(executor.arena().data(), executor.arena_bytes());
  const std::vector<bool> expected = pages_of_values(plan, ran, resident.size());
  std::vector<bool> allowed = expected;
  const auto mark_scratch = [&](const std::vector<plan::Item>& items) {
    for (const plan::Item& item : items) {
      const auto* call = std::get_if<plan::Call>(&item);
      if (call == nullptr) continue;
      mark(allowed, plan.state_bytes + call->scratch_offset, call->scratch_bytes);
    }
  };
  for (size_t p : ran) {
    mark_scratch(plan.programs[p].items);
    for (const plan::Loop& loop : plan.programs[p].loops) mark_scratch(loop.items);
  }
  TouchedPages result;
  for (size_t page = 0; page < resident.size(); ++page) {
    result.resident += resident[page] ? 1 : 0;
    result.expected += expected[page] ? 1 : 0;
    result.missing += expected[page] && !resident[page] ? 1 : 0;
    result.unplanned += resident[page] && !allowed[page] ? 1 : 0;
  }
  return result;
}

}  // namespace plimsoll::exec
