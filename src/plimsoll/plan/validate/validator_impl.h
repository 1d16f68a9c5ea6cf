#pragma once

// What the parts of the validator share: a program's tree laid out as sites.
//
// A site is one item of the tree at one place in the line of time, with all that the item means
// spelled out: its axes, the loops that cut them, and for each operand which rows of the instance
// it touches for given rows of the axes. Sites are worked out from graph and tree alone; nothing of
// the planner is used, and nothing that the plan says of sizes, places or lifetimes is believed.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/kernel_catalog.h"
#include "graph/op.h"
#include "graph/program.h"
#include "plan/core/plan.h"
#include "plan/validate/validator.h"
#include "plan/validate/validator_boxes.h"

namespace plimsoll::plan::referee {

// Which state variables of a program, by their places in its graph, a value belongs to, and where
// they lie.
struct StateTable {
  struct OfValue {
    std::vector<int> incoming;  // rising
    std::vector<int> outgoing;
  };
  std::vector<OfValue> values;
  std::vector<const StatePlacement*> places;  // per state variable; null: none in the plan

  bool in_file(size_t state) const {
    return places[state] != nullptr && places[state]->space == Space::kSpill;
  }
};
// `plan` has at most one place for each name.
StateTable find_states(const Plan& plan, const graph::Graph& graph);

// One program of the plan under examination.
struct Subject {
  const Plan& plan;
  const ProgramPlan& program;
  const graph::Program& source;
  const graph::KernelCatalog& catalog;
  const StateTable& states;
};

struct SiteAxis {
  std::string name;
  graph::AxisKind kind = graph::AxisKind::kMap;
  int64_t extent = 0;
  int64_t lane = 0;  // rows after which blocks count anew; 0: never
  int64_t block = 0;
  bool falling = false;
  bool row_exact = false;
  std::vector<LoopId> loops = {};  // that bind to it, outermost first

  bool is_one_call() const { return block >= extent && lane == 0; }
  // Blocks before the one that the row lies in, and the rows of that one.
  int64_t place_of(int64_t row) const {
    return lane == 0 ? row / block : row / lane * blocks_in(lane) + row % lane / block;
  }
  Range block_of(int64_t row) const {
    const int64_t start = lane == 0 ? 0 : row / lane * lane;
    const int64_t first = start + (row - start) / block * block;
    const int64_t end = lane == 0 ? extent : std::min(start + lane, extent);
    return {first, std::min(first + block, end)};
  }
  int64_t block_count() const { return extent == 0 ? 0 : place_of(extent - 1) + 1; }

 private:
  int64_t blocks_in(int64_t rows) const { return (rows + block - 1) / block; }
};

// Dimension `dimension` of an operand follows axis `axis` of the site.
struct Cut {
  int dimension = 0;
  int axis = 0;
  graph::AxisUse use;
};

struct SiteOperand {
  InstanceId instance;  // invalid: a dropped output
  std::vector<int64_t> dims;
  std::vector<Cut> cuts;
  // Axes that an output does not have: it adds up over their blocks.
  std::vector<int> folds;
};

struct Site {
  int64_t number = 0;  // on the line of time
  const Item* item = nullptr;
  std::vector<LoopId> around = {};  // outermost first
  std::vector<SiteAxis> axes = {};
  std::vector<SiteOperand> reads = {};
  std::vector<SiteOperand> writes = {};

  const Call* call() const { return std::get_if<Call>(item); }
};

// The body of a loop, or the root.
struct Body {
  std::vector<size_t> sites;         // Enter items have a site too
  std::vector<InstanceId> in_scope;  // instances whose scope this is
  int64_t begin = 0;                 // numbers of the loop's start and end on the line of time
  int64_t end = 0;
};

struct Sites {
  std::vector<Site> sites;   // in the order of the tree
  std::vector<Body> bodies;  // one per loop, the root last
  // Per instance: the site that writes it; −1: none (the incoming value of a state variable).
  std::vector<int64_t> writer;
  // Per transfer number, in order of their begins: sites of begin and wait.
  struct Transfer {
    int number = 0;
    size_t begin = 0;
    size_t wait = 0;
  };
  std::vector<Transfer> transfers;
  // Per instance: the first of the instances that share its memory by in_place (itself where none).
  std::vector<InstanceId> group;

  const Body& root() const { return bodies.back(); }
};

// Lays out the tree; fails on references, tree structure and bindings that make no sense.
Validation build_sites(const Subject& subject, Sites& sites);
// One site of each item kind (validator_site.cpp).
Validation make_site(const Subject& subject, const Item& item, Site& site);
// Forms, scopes, sizes, places of states and spill, and what may be reused in place.
Validation check_operands(const Subject& subject, Sites& sites);
// Runs the tree: rows, sums, states, transfers, outputs.
Validation replay(const Subject& subject, const Sites& sites);
// Alignment, overlap in time and address, region.
Validation check_memory(const Subject& subject, const Sites& sites);

// The rows of an operand for these rows of the site's axes.
Box region(const SiteOperand& operand, const std::vector<Range>& windows);
// Most rows that an iteration of `loop` has.
int64_t longest_iteration(const ProgramPlan& program, LoopId loop);
// Saved forms hold one bit for each element and keep the shape; rows start at bytes.
bool is_bits(const Subject& subject, InstanceId instance);
bool is_form_known(std::string_view form);

bool exists(const ProgramPlan& program, InstanceId id);
// The state variable, by its place in the graph's states, whose memory in the spill file the
// instance is: the incoming value or the one written, in the file. −1: none.
int find_state_in_file(const Subject& subject, InstanceId id);
Validation ok();
// "program train, call conv1: instance %5 (conv1): ": for messages.
std::string at(const Subject& subject);
std::string at(const Subject& subject, const Site& site);
std::string name_of(const Subject& subject, InstanceId instance);
std::string text(const Box& box);

}  // namespace plimsoll::plan::referee
