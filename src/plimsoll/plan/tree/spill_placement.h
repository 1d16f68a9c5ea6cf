#pragma once

// Brings state variables that lie in the spill file into a program's tree, and out again.
//
// Readers of such a variable read copies of it, each loaded in front of its first reader; what a
// state_write accepts is stored after it. An update of which much lies in the file runs in a loop
// over its rows, so that what does is never whole in memory:
//
//   begin t0 w.file -> w.1                     loop state_rows slice=512
//   wait t0                                      begin t1 w.file -> w.2, m.file -> m.1 …
//   call dense (x w.1) -> (y)                    wait t1 …
//   …                                            call adam (w.2 gradient m.1 …) -> (w' m' …)
//                                                call w/write (w') -> (), …
//                                                begin t4 w' -> w'.file …
//                                                wait t4 …
//                                              end
//
// Which variables lie in the file is the caller's choice. When copies are loaded again is a matter
// of cuts (plan/tree/cuts.h) and of `again`; begins and waits stand together here and are drawn
// apart later (plan/tree/moves.h).

#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"
#include "plan/core/plan.h"
#include "plan/facts/dependencies.h"

namespace plimsoll::plan {

// Variables that are updated together belong together: a weight and its slots. Groups by falling
// bytes, names inside in the order of the set; those of fewer bytes than `least` are left out.
struct StateGroup {
  std::vector<std::string> names;
  Bytes bytes;
};
std::vector<StateGroup> find_state_groups(const graph::ProgramSet& programs, Bytes least);

// Sets of variables to put into the spill file, each with more than the one before: of optimizer
// slots about a quarter, a half, all, and with them of weights a half, all. Without slots: of
// weights a quarter, a half, three quarters, all.
std::vector<std::set<std::string>> make_spill_placements(const graph::ProgramSet& programs,
                                                         Bytes least);

// Whether the program has a variable that `states` places in the file.
bool has_spilled_states(const graph::Graph& graph, std::span<const StatePlacement> states);

// On a tree as build_tree makes it (scopes still to be computed): copies and their loads. With
// `again` each reader gets its own, else the first one's is kept for all.
void load_states(const ProgramFacts& facts, std::span<const StatePlacement> states, bool again,
                 ProgramPlan& plan);

// After all cuts: copies that nobody reads go, loads that follow each other closely become one,
// updates become loops over rows, and what is written is stored. Loops and transfers are numbered
// anew. Updates of at least 32 times `least` bytes run in loops, each variable in slices of 16
// times, but those of `whole`.
void store_states(const ProgramFacts& facts, std::span<const StatePlacement> states, Bytes least,
                  std::span<const graph::NodeId> whole, ProgramPlan& plan);

// The updates in loops of a sized plan that could be done whole, with room for as much
// again, below the most bytes that it has alive at once, or below `room` where that is more. Their
// transfers can be drawn apart.
std::vector<graph::NodeId> find_whole_updates(const ProgramPlan& plan, Bytes room = {});

}  // namespace plimsoll::plan
