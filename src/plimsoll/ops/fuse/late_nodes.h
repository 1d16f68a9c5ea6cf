#pragma once

// Nodes that a pass over exchanges puts later than they stand, because a sum that they need is not
// there yet.
//
// A replay goes on with nodes that need nothing of the kind; those that were held back are visited
// again when the sum is there.

#include <vector>

#include "graph/ir.h"

namespace plimsoll::ops {

class LateNodes {
 public:
  explicit LateNodes(const graph::Graph& graph);

  // Whether something with samples comes after the node: it cannot wait.
  bool is_urgent(graph::NodeId node) const { return urgent_[node.index()]; }
  // Whether the node needs a late value, or writes what a node that is held reads.
  bool is_late(graph::NodeId node) const;

  void set_late(graph::ValueId value, bool late) { late_[value.index()] = late; }
  // Its results are late, too.
  void hold(graph::NodeId node);
  // The nodes that are held, in their order: from here on they are not.
  std::vector<graph::NodeId> take();

  // What tells the next exchange that this one is over.
  bool is_number(graph::ValueId value) const;
  // What a node reads beside such numbers.
  std::vector<graph::ValueId> operands_of(const graph::Node& node) const;

 private:
  bool has_samples(const std::vector<graph::ValueId>& values) const;

  const graph::Graph& graph_;
  std::vector<std::vector<graph::NodeId>> users_;
  std::vector<bool> urgent_;   // by node
  std::vector<bool> late_;     // by value
  std::vector<bool> is_held_;  // by node
  std::vector<graph::NodeId> held_;
};

}  // namespace plimsoll::ops
