#pragma once

// The referee: replays a plan iteration by iteration and says the first thing that is wrong with
// it.
//
// It shares no code with the planner and believes nothing that the plan says of itself: extents,
// live ranges, overlaps, scratch and peak are worked out again from graph, loops and catalog. It
// is dumb on purpose: rows that an instance holds are tracked as blocks while the tree is run.

#include <string>
#include <string_view>

#include "graph/program.h"
#include "plan/core/plan.h"

namespace plimsoll::plan {

enum class Verdict : uint8_t {
  kValid,
  kWrongProgram,   // fingerprint, names, batch or kernel set are not those of the programs
  kWrongBlock,     // a node's block is not the catalog's
  kBadReference,   // an id that does not exist, an operand of another value
  kMissingNode,    // a node that no call computes, or not all of its rows
  kRepeatedNode,   // rows computed twice by the node itself (not by a clone)
  kBadSlice,       // a slice or its start is no multiple of a block inside; a bad binding
  kNotCuttable,    // a loop cuts an axis that a node inside does not allow to cut
  kWrongSize,      // an instance's bytes or scope are not what its uses need
  kNotComputed,    // rows are read that hold nothing, or something else by now
  kIncompleteSum,  // an accumulator is read before its last block
  kBlockOrder,     // blocks of a sum come out of order
  kStateOrder,     // a state is read after its write, written twice, cloned, or not written
  kOverlap,        // two live instances, or an instance and scratch, share bytes
  kBadInPlace,     // memory is reused where the operator forbids it or the source lives
  kBadForm,        // a saved form that the node's kernels do not accept
  kScratch,        // scratch smaller than the catalog says
  kMissingWait,    // a transfer that is read before its wait, or never waited for
  kMisaligned,     // an offset that is no multiple of kAlignment
  kPeak,           // bytes beyond the region that the plan states, or a wrong total
};
std::string_view to_string(Verdict verdict);

struct [[nodiscard]] Validation {
  Verdict verdict = Verdict::kValid;
  std::string message;  // program, item, instance: expected, received
  bool ok() const { return verdict == Verdict::kValid; }
};

Validation validate(const Plan& plan, const graph::ProgramSet& programs,
                    const graph::KernelCatalog& catalog);

}  // namespace plimsoll::plan
