#pragma once

// The planner: a pure function from programs, limit and costs to a plan or an answer.
//
// Equal inputs give equal plans, byte for byte: effort is counted in steps, never in seconds. The
// candidates do not depend on the limit; the answer at a limit is the fastest candidate whose arena
// fits, so more memory is never slower. The limit here is the arena's (state included): what the
// rest of the process needs has been taken off by the caller.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "graph/kernel_catalog.h"
#include "graph/program.h"
#include "plan/core/plan.h"

namespace plimsoll::plan {

struct PlanOptions {
  // By whose times plans that fit are chosen; null: by the catalog's that is asked. The catalog's
  // own decide which plans are looked at, so that what fits, and the smallest arena, are the same
  // whatever was measured. It has the same blocks and scratch, and outlives the answer.
  const graph::KernelCatalog* choice = nullptr;
  bool search_by_choice = false;          // looks at the plans that are best by those times, too
  std::optional<Bytes> arena_limit = {};  // none: the free plan
  int64_t max_steps = 200'000;            // search effort
  Bytes gap = {};                         // bytes kept free between buffers (poisoned in tests)
  // What a call that computes again takes outside of the arena; every size below counts it.
  Bytes clone_bytes = {};
  // The most time against the free plan's; without a limit the smallest plan within it is taken.
  std::optional<double> max_slowdown = {};
  double free_seconds = 0;  // that the slowdown is measured against; 0: this search's own
  bool slices = true;       // each technique is a switch, default on (plan/search/techniques.h)
  bool nested_loops = true;
  bool reread_inputs = true;
  bool in_place = true;
  bool saved_forms = true;
  bool recompute = true;
  bool deferred_updates = true;
  bool keep_packs = true;
  bool several_placers = true;
  bool move = false;  // values to the spill file and back: plan/search/spilled.h asks for it
  // Weights with their slots that have fewer bytes stay in memory; pieces of larger ones are
  // counted in it.
  Bytes least_moved = Bytes(int64_t{64} << 10);
};

// What one layer holds at the peak.
struct Culprit {
  std::string layer;
  Bytes bytes;
  std::string what;  // "activations", "gradients", "weights", "optimizer", "scratch", "input"
  friend bool operator==(const Culprit&, const Culprit&) = default;
};

// A candidate's place on the frontier of memory against time.
struct FrontierPoint {
  Bytes arena_bytes;
  double seconds = 0;  // estimated, of one training step
  std::string what;    // "whole batch", "slices of 4", "slices of 64, loops of 2 inside"
  friend bool operator==(const FrontierPoint&, const FrontierPoint&) = default;
};

struct Fits {
  Plan plan;
  double seconds = 0;
  std::string what;
};
struct Impossible {
  Bytes lower_bound;
  std::string proof;
};
struct NotFound {
  Bytes lower_bound;
};

struct [[nodiscard]] PlanOutcome {
  std::variant<Fits, Impossible, NotFound> answer;
  Bytes lower_bound;                    // of the arena
  Bytes smallest;                       // the smallest arena for which a plan was found
  Bytes free_plan;                      // the arena of the free plan
  double free_seconds = 0;              // and its time
  bool cut_short = false;               // with more effort more plans would have been tried
  std::vector<FrontierPoint> frontier;  // by rising memory, time strictly falling
  // Plans of the first program that anyone would make, for comparison: "whole batch, all kept",
  // "slices alone", "checkpoints", "greedy eviction". Their arenas are as small as a perfect
  // placement would make them.
  std::vector<FrontierPoint> plain;
  std::vector<Culprit> culprits;  // at the free plan's peak, largest first
  const Fits* fits() const { return std::get_if<Fits>(&answer); }
};

// The arena with what clones take besides, as the search counts it: of the program with the most.
Bytes counted_bytes(const Plan& plan, Bytes clone_bytes);

PlanOutcome make_plan(const graph::ProgramSet& programs, const graph::KernelCatalog& catalog,
                      const PlanOptions& options);

// The smallest arena that make_plan() finds with these options, and nothing else of its answer: for
// a part of the work.
struct SmallestArena {
  Bytes lower_bound;
  // None where options.arena_limit is below the lower bound: nothing is searched then.
  std::optional<Bytes> smallest;
};
SmallestArena find_smallest_arena(const graph::ProgramSet& programs,
                                  const graph::KernelCatalog& catalog, const PlanOptions& options);

// What is alive at the program's peak, by layer and kind, largest first; state variables come with
// it. `plan` is complete; ties in name order.
std::vector<Culprit> find_culprits(const Plan& plan, const graph::ProgramSet& programs);

// Each node over the whole batch at the root, each value in a buffer of its own: the plainest valid
// plan of a kernel set, the truth that others are compared with bit by bit.
Plan naive_plan(const graph::ProgramSet& programs, const graph::KernelCatalog& catalog);

// No plan of these programs and blocks can have a smaller arena; `proof` gets the reason in words.
// `spill`: with a spill file, where no state variable need be in memory but while it is used.
Bytes lower_bound(const graph::ProgramSet& programs, const graph::KernelCatalog& catalog,
                  std::string* proof, bool spill = false);

}  // namespace plimsoll::plan
