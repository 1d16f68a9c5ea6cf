#include "plan/tree_editor.h"

#include <utility>

namespace plimsoll::plan {
namespace {

constexpr int64_t kRoom = int64_t{1} << 24;  // between neighbouring keys

// Stands for a loop's end, so that what comes behind a loop has a place; never written back.
Item end_mark() { return WaitTransfer{-1}; }
bool is_end_mark(const Item& item) {
  const auto* wait = std::get_if<WaitTransfer>(&item);
  return wait != nullptr && wait->number < 0;
}

}  // namespace

TreeEditor::TreeEditor(const ProgramPlan& program)
    : enters_(program.loops.size()), ends_(program.loops.size()) {
  add_body(program.items, LoopId(), program);
}

void TreeEditor::add_body(const std::vector<Item>& items, LoopId body, const ProgramPlan& program) {
  for (const Item& item : items) {
    const Index index = add(item, body);
    const auto* enter = std::get_if<Enter>(&item);
    if (enter == nullptr) continue;
    enters_[enter->loop.index()] = index;
    add_body(program.loops[enter->loop.index()].items, enter->loop, program);
    ends_[enter->loop.index()] = add(end_mark(), enter->loop);
  }
}

TreeEditor::Index TreeEditor::add(Item item, LoopId body) {
  const auto index = static_cast<Index>(entries_.size());
  entries_.push_back({std::move(item), body, (index + 1) * kRoom});
  order_.emplace_hint(order_.end(), entries_.back().key, index);
  return index;
}

TreeEditor::Index TreeEditor::item_in(Index index, LoopId body) const {
  while (entry(index).body != body) index = enter(entry(index).body);
  return index;
}

bool TreeEditor::holds(LoopId body, Index index) const {
  if (!body.valid()) return true;
  LoopId here = entry(index).body;
  while (here.valid() && here != body) here = parent(here);
  return here == body;
}

TreeEditor::Index TreeEditor::insert_before(Index where, Item item) {
  return insert_at(order_.find(key(where)), std::move(item), entry(where).body);
}

TreeEditor::Index TreeEditor::insert_behind(Index where, Item item) {
  const LoopId body = entry(where).body;
  const auto* enter = std::get_if<Enter>(&entry(where).item);
  const Index last = enter == nullptr ? where : ends_[enter->loop.index()];
  return insert_at(std::next(order_.find(key(last))), std::move(item), body);
}

TreeEditor::Index TreeEditor::insert_at(std::map<int64_t, Index>::iterator position, Item item,
                                        LoopId body) {
  const auto low_of = [&] { return position == order_.begin() ? 0 : std::prev(position)->first; };
  const auto high_of = [&] {
    return position == order_.end() ? low_of() + 2 * kRoom : position->first;
  };
  if (high_of() - low_of() < 2) {
    const Index at = position == order_.end() ? -1 : position->second;
    spread_keys();
    position = at < 0 ? order_.end() : order_.find(key(at));
  }
  const auto index = static_cast<Index>(entries_.size());
  entries_.push_back({std::move(item), body, low_of() + (high_of() - low_of()) / 2});
  order_.emplace(entries_.back().key, index);
  return index;
}

void TreeEditor::spread_keys() {
  std::map<int64_t, Index> spread;
  for (const auto& [old, index] : order_) {
    Entry& entry = entries_[static_cast<size_t>(index)];
    entry.key = (std::ssize(spread) + 1) * kRoom;
    spread.emplace_hint(spread.end(), entry.key, index);
  }
  order_ = std::move(spread);
}

void TreeEditor::write_back(ProgramPlan& program) const {
  program.items.clear();
  for (Loop& loop : program.loops) loop.items.clear();
  for (const auto& [key, index] : order_) {
    const Entry& entry = entries_[static_cast<size_t>(index)];
    if (is_end_mark(entry.item)) continue;
    std::vector<Item>& body =
        entry.body.valid() ? program.loops[entry.body.index()].items : program.items;
    body.push_back(entry.item);
  }
}

}  // namespace plimsoll::plan
