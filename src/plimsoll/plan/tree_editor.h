#pragma once

// A program's tree taken apart for changes: its items on one line of time, each with its body.
//
// Keys are numbers that rise along the walk of the tree, with room between them, so that items can
// be put before and behind others without counting anew. Loops cannot be added or removed. Nothing
// here asks whether a change is right.

#include <cstdint>
#include <map>
#include <vector>

#include "plan/plan.h"

namespace plimsoll::plan {

class TreeEditor {
 public:
  // The items of `program`, which must not change until write_back().
  explicit TreeEditor(const ProgramPlan& program);

  struct Entry {
    Item item;
    LoopId body;  // whose body it stands in; invalid: the root
    int64_t key = 0;
  };
  using Index = int32_t;  // of an entry; stays the same over changes

  size_t size() const { return entries_.size(); }
  const Entry& entry(Index index) const { return entries_[static_cast<size_t>(index)]; }
  Item& item(Index index) { return entries_[static_cast<size_t>(index)].item; }
  int64_t key(Index index) const { return entry(index).key; }

  // The loop around a loop's Enter, and that item.
  LoopId parent(LoopId loop) const { return entry(enter(loop)).body; }
  Index enter(LoopId loop) const { return enters_[loop.index()]; }
  // The item of `body` that is, or holds, this one; `body` must be around it.
  Index item_in(Index index, LoopId body) const;
  bool holds(LoopId body, Index index) const;

  // Into the same body as `where`.
  Index insert_before(Index where, Item item);
  Index insert_behind(Index where, Item item);

  void write_back(ProgramPlan& program) const;

 private:
  void add_body(const std::vector<Item>& items, LoopId body, const ProgramPlan& program);
  Index add(Item item, LoopId body);
  // A new entry right before the key at `position`.
  Index insert_at(std::map<int64_t, Index>::iterator position, Item item, LoopId body);
  void spread_keys();

  std::vector<Entry> entries_;
  std::vector<Index> enters_;  // per loop
  std::vector<Index> ends_;    // per loop: an entry that stands for its end
  std::map<int64_t, Index> order_;
};

}  // namespace plimsoll::plan
