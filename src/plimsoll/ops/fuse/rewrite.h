#pragma once

// Replays a graph into a new one, node by node, so that a pass can leave nodes out, merge them or
// put others in front. Inputs, states, outputs, names, layers and stages are carried over, and the
// result is numbered as a builder numbers it.

#include <functional>
#include <vector>

#include "graph/builder.h"
#include "graph/ir.h"

namespace plimsoll::ops {

class Replay {
 public:
  Replay(const graph::Graph& graph, const graph::OpRegistry& registry);

  // What becomes of one node: the callback adds what it wants to by the functions below, or
  // nothing. Called in node order.
  using Visitor = std::function<void(Replay&, graph::NodeId)>;
  graph::Graph run(const Visitor& visit);

  const graph::Graph& source() const { return source_; }
  graph::GraphBuilder& builder() { return builder_; }
  // The new value of an old one that was added already.
  graph::ValueId mapped(graph::ValueId old) const { return map_[old.index()]; }
  std::vector<graph::ValueId> mapped(const std::vector<graph::ValueId>& old) const;

  // Adds the node as it was, with these (new) operands.
  void copy(graph::NodeId node, std::vector<graph::ValueId> inputs);
  // Adds a node under the old node's name, layer and stage, whose outputs take the place of these
  // old values.
  void add(graph::NodeId like, std::string_view op, std::vector<graph::ValueId> inputs,
           graph::Attributes attributes, const std::vector<graph::ValueId>& outputs);
  // From now on, this (new) value takes the place of an old one.
  void replace(graph::ValueId old, graph::ValueId by) { map_[old.index()] = by; }

 private:
  void visit_up_to(const Visitor& visit, size_t end);

  const graph::Graph& source_;
  graph::GraphBuilder builder_;
  std::vector<graph::ValueId> map_;
  size_t next_node_ = 0;
};

}  // namespace plimsoll::ops
