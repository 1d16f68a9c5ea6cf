#pragma once

// Cuts: where a value stops being kept, and what its later readers read instead.
//
// A cut names a value and an anchor, the call of a node. Readers from the anchor on no longer read
// what earlier readers read, but
//   a saved form   made after the last earlier use; for the readers whose kernels accept it
//   a clone        the producer computed again before the first of them (an input is fed again)
//   a moved copy   written to the spill file after the last earlier use, read back before
// so the value need not be alive at the anchor. The producer's own operands are then read by the
// clone; they may have cuts too, to any depth.
//
//   conv1 ─▶ %2 ─▶ relu … loss … relu' (%2) …      cut %2 at loss by positive_bits:
//   conv1 ─▶ %2 ─▶ relu, encode ▶ %9 … loss … relu' (%9) …
//
// A cut that cannot be made is left out, so cuts are suggestions: a node that sums over the batch
// has no clone, nor has one whose state variable has been written by then, nor one whose block does
// not fit the loops around the reader. What is made is right whatever the cuts are.

#include <string>
#include <vector>

#include "plan/core/plan.h"
#include "plan/facts/dependencies.h"

namespace plimsoll::plan {

enum class CutKind : uint8_t { kForm, kRecompute, kMove };

struct Cut {
  graph::ValueId value;
  graph::NodeId anchor;
  CutKind kind = CutKind::kRecompute;
  std::string form;  // kForm only
  friend bool operator==(const Cut&, const Cut&) = default;
};

// Applies cuts to a tree as build_tree makes it (scopes still to be computed). Later cuts of a
// value at the same anchor are left out, but a form and another kind go together: those readers
// that do not accept the form take the other.
void apply_cuts(const std::vector<Cut>& cuts, const ProgramFacts& facts,
                const Dependencies& dependencies, ProgramPlan& plan);

// The smallest form that the node's kernels accept for that operand; empty: none.
std::string smallest_form(const ProgramFacts& facts, graph::NodeId node, size_t input);

}  // namespace plimsoll::plan
