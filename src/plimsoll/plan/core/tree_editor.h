#pragma once

// A program's tree taken apart for changes: its items on one line of time, each with its body.
//
// Keys are numbers that rise along the walk of the tree, with room between them, so that items can
// be put before and after others without counting anew. Loops cannot be added or removed. Nothing
// here asks whether a change is right.

#include <cstdint>
#include <vector>

#include "plan/core/plan.h"

namespace plimsoll::plan {

class TreeEditor {
 public:
  // Takes the items out of `program`; write_back() puts them there again.
  explicit TreeEditor(ProgramPlan& program);

  struct Entry {
    Item item;
    LoopId body;  // whose body it stands in; invalid: the root
    int64_t key = 0;
    int32_t before = -1;  // its neighbours along the walk; −1: none
    int32_t after = -1;
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
  Index insert_after(Index where, Item item);

  void write_back(ProgramPlan& program);

 private:
  void add_body(std::vector<Item>& items, LoopId body, ProgramPlan& program);
  Entry& at(Index index) { return entries_[static_cast<size_t>(index)]; }
  Index add(Item item, LoopId body);
  // A new entry between two neighbours.
  Index insert_between(Index before, Index after, Item item, LoopId body);
  void spread_keys();

  std::vector<Entry> entries_;
  std::vector<Index> enters_;  // per loop
  std::vector<Index> ends_;    // per loop: an entry that stands for its end
  Index first_ = -1;
  Index last_ = -1;
};

}  // namespace plimsoll::plan
