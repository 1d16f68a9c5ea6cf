#pragma once

// Draws the begins and waits of transfers apart, so that the disk works while kernels do.
//
//   begin t0 %0 -> %1        a load begins as early as there is room for its target …
//   call …                   … up to what the calls in between need for all transfers among them
//   begin t1 %8 -> %9        a store is waited for as late
//   wait t0                  in front of the first reader, as before
//   call dense (x %1) -> …
//   wait t1
//
// Room is what is left below the most bytes that the plan has alive at once, or below `room` where
// that is more: the load of the plan never grows beyond both.
// Loads keep their order. A load stays after the store that it reads, a store in front of whatever
// takes its source's memory over and of the loads that read it. Transfers stay in their body, and
// those of updates over rows as they are: the executor reads ahead of iterations by itself.

#include "plan/core/plan.h"
#include "plan/facts/program_facts.h"

namespace plimsoll::plan {

// `plan` is sized, with in-place reuse, and not placed.
void draw_apart(ProgramFacts& facts, ProgramPlan& plan, Bytes room = {});

}  // namespace plimsoll::plan
