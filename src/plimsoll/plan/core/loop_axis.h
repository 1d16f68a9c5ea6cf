#pragma once

// The axis that a loop goes over.
//
// Any axis that a node declares may be looped over: loop and node meet by its name (graph/op.h),
// and the node says how it may be cut and which rows of each operand an iteration touches. Values
// outside of calls have axes too (graph/value_axes.h). What does not depend on any node is said
// here, so that nobody has to ask which axis it is:
//
//               samples   of states
//   batch       yes       no         inputs are filled and outputs taken by it
//   state_rows  no        yes        pieces of variables that are updated one by one
//   any other   no        no         rows of images, depth of volumes, units, time, …

#include <string>
#include <string_view>

#include "graph/op.h"

namespace plimsoll::plan {

class LoopAxis {
 public:
  LoopAxis() = default;  // A name is an axis. NOLINTBEGIN(google-explicit-constructor)
  LoopAxis(std::string_view name);
  LoopAxis(const std::string& name) : LoopAxis(std::string_view(name)) {}
  LoopAxis(const char* name) : LoopAxis(std::string_view(name)) {}
  // NOLINTEND(google-explicit-constructor)
  const std::string& name() const { return name_; }

  // An iteration holds samples, and whatever has samples has those of the iteration: readers need
  // the rows that makers make, sources and sinks know them, bits are packed by them. Of other axes
  // it takes the nodes to know the rows, and sources and sinks know nothing of them.
  bool of_samples() const { return of_samples_; }
  // An iteration holds a piece of each variable that it updates.
  bool of_states() const { return of_states_; }
  // How it meets values of that type, where types say it; dimension −1: not at all, or only nodes
  // know.
  graph::AxisUse use_in(const graph::ValueType& type) const;

  friend bool operator==(const LoopAxis& a, const LoopAxis& b) { return a.name_ == b.name_; }
  friend auto operator<=>(const LoopAxis& a, const LoopAxis& b) { return a.name_ <=> b.name_; }

 private:
  std::string name_;
  bool of_samples_ = false;
  bool of_states_ = false;
};

}  // namespace plimsoll::plan
