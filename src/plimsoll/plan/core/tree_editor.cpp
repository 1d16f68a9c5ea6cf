#include "plan/core/tree_editor.h"

#include <utility>

namespace plimsoll::plan {
namespace {

constexpr int64_t kRoom = int64_t{1} << 40;  // between neighbouring keys

// Stands for a loop's end, so that what comes after a loop has a place; never written back.
Item end_mark() { return WaitTransfer{-1}; }
bool is_end_mark(const Item& item) {
  const auto* wait = std::get_if<WaitTransfer>(&item);
  return wait != nullptr && wait->number < 0;
}

}  // namespace

TreeEditor::TreeEditor(ProgramPlan& program)
    : enters_(program.loops.size()), ends_(program.loops.size()) {
  add_body(program.items, LoopId(), program);
}

void TreeEditor::add_body(std::vector<Item>& items, LoopId body, ProgramPlan& program) {
  for (Item& item : items) {
    const Index index = add(std::move(item), body);
    const auto* enter = std::get_if<Enter>(&entry(index).item);
    if (enter == nullptr) continue;
    const LoopId loop = enter->loop;
    enters_[loop.index()] = index;
    add_body(program.loops[loop.index()].items, loop, program);
    ends_[loop.index()] = add(end_mark(), loop);
  }
  items.clear();
}

TreeEditor::Index TreeEditor::add(Item item, LoopId body) {
  const auto index = static_cast<Index>(entries_.size());
  entries_.push_back({std::move(item), body, (index + 1) * kRoom, last_, -1});
  if (last_ >= 0) {
    at(last_).after = index;
  } else {
    first_ = index;
  }
  last_ = index;
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
  return insert_between(entry(where).before, where, std::move(item), entry(where).body);
}

TreeEditor::Index TreeEditor::insert_after(Index where, Item item) {
  const LoopId body = entry(where).body;
  const auto* enter = std::get_if<Enter>(&entry(where).item);
  const Index last = enter == nullptr ? where : ends_[enter->loop.index()];
  return insert_between(last, entry(last).after, std::move(item), body);
}

TreeEditor::Index TreeEditor::insert_between(Index before, Index after, Item item, LoopId body) {
  const auto low = [&] { return before < 0 ? 0 : key(before); };
  const auto high = [&] { return after < 0 ? low() + 2 * kRoom : key(after); };
  if (high() - low() < 2) spread_keys();
  const auto index = static_cast<Index>(entries_.size());
  entries_.push_back({std::move(item), body, low() + (high() - low()) / 2, before, after});
  (before < 0 ? first_ : at(before).after) = index;
  (after < 0 ? last_ : at(after).before) = index;
  return index;
}

void TreeEditor::spread_keys() {
  int64_t next = 0;
  for (Index index = first_; index >= 0; index = entry(index).after) at(index).key = next += kRoom;
}

void TreeEditor::write_back(ProgramPlan& program) {
  for (Index index = first_; index >= 0; index = entry(index).after) {
    Entry& entry = at(index);
    if (is_end_mark(entry.item)) continue;
    std::vector<Item>& body =
        entry.body.valid() ? program.loops[entry.body.index()].items : program.items;
    body.push_back(std::move(entry.item));
  }
}

}  // namespace plimsoll::plan
