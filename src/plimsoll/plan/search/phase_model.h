#pragma once

// Recomputation in phases, as a model that is scored a thousand times faster than a plan.
//
// Where loops over the batch are cut by totals, what counts of a value is in which items of the
// root (its *places*) it is there: made, kept with all rows until a later place reads it, or made
// again in that place, slice by slice, from operands that must be there in their turn. The model
// has a tree's places, the bytes alive in each that no choice changes, and per value where it is
// made, where it is read, and what it takes. A choice says per value and place whether it is made
// again there if it is needed there.
//
//   place        0  1  2  …  9   10
//   c1           m ────────── r        kept: all rows from 0 to 9
//   relu1           m         a  a     again at 9 and 10: needs c1 at 9 and at 10
//
// What lives inside of one loop alone counts as nothing, scratch as in the tree, in-place reuse not
// at all: the caller builds the plan of a choice, scores it, and corrects `fixed` by the
// difference.

#include <cstdint>
#include <string>
#include <vector>

#include "plan/facts/liveness.h"
#include "plan/tree/cuts.h"
#include "plan/tree/evict.h"

namespace plimsoll::plan {

struct PhaseModel {
  struct Place {
    Interval numbers;      // of its items
    graph::NodeId anchor;  // its first call
    bool loop = false;     // what is made and read in it alone takes nothing
    friend bool operator==(const Place&, const Place&) = default;
  };
  // Readers in a place.
  struct Readers {
    int place = 0;
    int count = 0;
    friend bool operator==(const Readers&, const Readers&) = default;
  };
  struct Value {
    graph::ValueId id;
    int made = 0;
    int latest = -1;            // the last place in which it may be made again
    int64_t bytes = 0;          // all rows
    int64_t nanoseconds = 0;    // to make it again
    bool sliced = false;        // loops make it slice by slice
    bool cheap = false;         // what its operator says of itself
    std::vector<int> operands;  // places in `values` of what it is made from, each once
    std::vector<Readers> readers;
    // Its smallest form, and those readers that take it; empty: none.
    std::string form;
    int64_t form_bytes = 0;
    int64_t form_nanoseconds = 0;
    std::vector<Readers> form_readers;
    friend bool operator==(const Value&, const Value&) = default;
  };
  std::vector<Place> places;
  std::vector<Value> values;   // operands first
  std::vector<int64_t> fixed;  // per place
  friend bool operator==(const PhaseModel&, const PhaseModel&) = default;
};

struct PhaseOptions {
  bool forms = true;
  bool reread = true;  // inputs may be fed again
};

// Takes a sized tree without cuts, in which all loops go over the batch, and its buffers.
PhaseModel make_phase_model(const Occupied& tree, ProgramFacts& facts,
                            const Dependencies& dependencies, const PhaseOptions& options);

// The most bytes alive in each place of a plan made with cuts from the model's tree.
std::vector<int64_t> find_place_loads(const PhaseModel& model, const Occupied& plan);

}  // namespace plimsoll::plan
