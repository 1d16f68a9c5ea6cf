#pragma once

// When each instance of a plan's tree is alive, on one line of time.
//
// Items are numbered in the order in which they stand in the tree, a loop taking a number for its
// start and one for its end. An instance is alive over the half-open interval from the item that
// first writes it to after the one that last reads it; where it is used inside a loop that is not
// its scope, over all of that loop. Two instances may share bytes only where their intervals do not
// meet. Scratch is alive during its call.
//
//   items      0    1 [loop  2     3     4  loop] 5     6
//   %1 scope=root  ████████████████████████████      used at 0 and 3: until the loop's end
//   %2 scope=loop            ██████                   2 to 3

#include <cstdint>
#include <span>
#include <vector>

#include "plan/core/plan.h"

namespace plimsoll::plan {

// Half-open.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

// By instance; begin == end: no item names it. In-place reuse does not count here.
std::vector<Interval> find_lives(const ProgramPlan& program);

// Memory to place: an instance (with all that reuse it in place), or scratch.
struct Buffer {
  Interval live;
  Bytes bytes;
  std::vector<InstanceId> instances;  // empty: scratch
  int64_t scratch_of = -1;            // number of the call item whose scratch this is
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

// Buffers of a program in one space, instances by their first number, then scratch by number (the
// arena has it). Instances that no item names and scratch of no bytes are left out.
std::vector<Buffer> find_buffers(const ProgramPlan& program, Space space = Space::kArena);

// The numbers that the items of the root take, loops with all that is in them.
std::vector<Interval> number_root_items(const ProgramPlan& program);

// The bytes alive at each number, each buffer rounded up to kAlignment.
std::vector<int64_t> find_profile(std::span<const Buffer> buffers);

// What no placement of this plan's values can undercut: state and the most bytes alive at once.
Bytes find_arena_load(const Plan& plan);

// The most bytes alive at once within `window`, each buffer rounded up to kAlignment.
Bytes find_load(const std::vector<Buffer>& buffers, Interval window, int64_t* when = nullptr);

}  // namespace plimsoll::plan
