#pragma once

// Why a plan holds what it holds: for each value of a layer what became of it, what that saved and
// what it costs.
//
// The measure is the peak of the program that is run again and again (the first one). A value that
// is needed on both sides of the peak would take its whole batch there if nothing were done; what
// its copies take in fact is less where it is cut into slices, kept in a smaller form, computed
// again or moved to the spill file. It tells what is in the plan, not what other plans would do.

#include <string>
#include <string_view>
#include <vector>

#include "graph/kernel_catalog.h"
#include "graph/program.h"
#include "plan/core/plan.h"

namespace plimsoll::plan {

struct ValueStory {
  std::string value;
  // "kept", or some of "in slices", "as <form>", "computed again", "read again", "moved to the
  // spill file", "in place".
  std::vector<std::string> treatment;
  Bytes whole;         // the plain value over the whole batch
  Bytes at_peak;       // of all its copies
  Bytes saved;         // at the peak; zero where it is not needed across the peak
  double seconds = 0;  // a step, of encoding, computing again and moving
  friend bool operator==(const ValueStory&, const ValueStory&) = default;
};

// Values that the layer's nodes give and the layer's state variables, in the order of the graph;
// also values of an input of that name. Throws kConfig with a did-you-mean for an unknown layer.
// `plan` is complete.
std::vector<ValueStory> explain_layer(const Plan& plan, const graph::ProgramSet& programs,
                                      const graph::KernelCatalog& catalog, std::string_view layer);

}  // namespace plimsoll::plan
