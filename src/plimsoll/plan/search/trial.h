#pragma once

// A schedule for a program's plan, and what becomes of it: the tree, sized, with in-place reuse,
// but not placed. The bytes alive at once are known then (no placement can undercut them), and the
// time.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "plan/facts/estimate.h"
#include "plan/facts/liveness.h"
#include "plan/search/planner.h"
#include "plan/search/schedules.h"
#include "plan/tree/cuts.h"
#include "plan/tree/loop_nest.h"

namespace plimsoll::plan {

inline constexpr Interval kAlways{0, std::numeric_limits<int64_t>::max()};

// How a program's phases are found (plan/search/phases.h).
struct Phasing {
  LoopAxis axis = graph::kBatchAxis;
  bool deferred_updates = false;  // updates of weights come after everything else
  friend bool operator==(const Phasing&, const Phasing&) = default;
};

struct Schedule {
  Shapes shapes;
  OrderRule rule = OrderRule::kGraph;
  bool reread = false;
  std::vector<Cut> cuts;
  bool reload = false;  // state variables in the spill file anew for each reader
  Phasing phasing = {};
  bool keep_packs = false;  // memory of their own for packed weights (plan/tree/lasting_packs.h)
  Bytes room = {};          // transfers may take so many bytes alive at once (plan/tree/moves.h)
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// Builds trees of one program, remembering the last one without its cuts. Holds references.
// `states` says which variables lie in the spill file.
class Trials {
 public:
  // Its schedules' phasing is this one, whatever they say.
  Trials(ProgramFacts& facts, std::span<const StatePlacement> states, const PlanOptions& options,
         const Phasing& phasing = {});

  ProgramFacts& facts() { return facts_; }
  const Dependencies& dependencies() const { return dependencies_; }
  std::span<const std::vector<graph::NodeId>> slots() const { return slots_; }
  size_t phase_count() const { return slots_.size() / 2; }

  ProgramPlan build(const Schedule& schedule);
  // The most bytes alive from the first to the last call of each phase; of one phase alone nothing.
  std::vector<Bytes> find_phase_loads(const ProgramPlan& plan,
                                      const std::vector<Buffer>& buffers) const;

 private:
  void size(ProgramPlan& plan);

  ProgramFacts& facts_;
  std::span<const StatePlacement> states_;
  bool spilled_;  // some of the program's
  const PlanOptions& options_;
  Dependencies dependencies_;
  std::vector<std::vector<graph::NodeId>> slots_;
  std::vector<int> phase_of_;  // per node; −1: outside of loops
  Schedule last_;              // without cuts
  ProgramPlan tree_;           // of last_
};

}  // namespace plimsoll::plan
