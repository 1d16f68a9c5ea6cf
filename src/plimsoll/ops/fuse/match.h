#pragma once

// What the matchers of groups of nodes share: looking at the nodes around a value, and whether a
// value is gone once the group has taken the place of its members.

#include <algorithm>
#include <string_view>
#include <vector>

#include "graph/ir.h"
#include "graph/op.h"

namespace plimsoll::ops {

class Matcher {
 public:
  // `users`: of each value the nodes that read it, in node order.
  Matcher(const graph::Graph& graph, const std::vector<std::vector<graph::NodeId>>& users)
      : graph_(graph), users_(users) {}

 protected:
  const graph::Node& node(graph::NodeId id) const { return graph_.node(id); }

  // The node that makes the value, where it is of that operator; else an invalid one.
  graph::NodeId producer(graph::ValueId value, std::string_view op) const {
    const graph::Value& v = graph_.value(value);
    if (v.kind != graph::ValueKind::kNode || node(v.producer).op->name() != op) return {};
    return v.producer;
  }

  // Fills a place that one node alone may have.
  static bool take(graph::NodeId& place, graph::NodeId found) {
    if (place.valid()) return false;
    place = found;
    return true;
  }

  bool is_output(graph::ValueId value) const {
    return std::ranges::find(graph_.outputs, value) != graph_.outputs.end();
  }

  // Whether none but the members reads the first output of each of these nodes, which are left out
  // where they are invalid.
  bool only_read_by(const std::vector<graph::NodeId>& members,
                    const std::vector<graph::NodeId>& gone) const {
    return std::ranges::all_of(gone, [&](graph::NodeId of) {
      if (!of.valid()) return true;
      const graph::ValueId value = node(of).outputs[0];
      return !is_output(value) &&
             std::ranges::all_of(users_[value.index()], [&](graph::NodeId user) {
               return std::ranges::find(members, user) != members.end();
             });
    });
  }

  const graph::Graph& graph_;
  const std::vector<std::vector<graph::NodeId>>& users_;
};

}  // namespace plimsoll::ops
