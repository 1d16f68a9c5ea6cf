#pragma once

// Along which axes a value is cut where it stands alone: fed, handed out, encoded or moved in the
// iterations of loops, outside of any call.
//
//   an input            the batch
//   a state variable    its rows (graph/state_rows.h)
//   a node's result     each axis of its producer that it has

#include <string>
#include <vector>

#include "graph/op.h"

namespace plimsoll::graph {

struct ValueAxis {
  std::string name;
  Dim extent;
  AxisUse use;  // its dimension is one of the value's
  friend bool operator==(const ValueAxis&, const ValueAxis&) = default;
};

// `producer`: axes of the node that makes the value; of others it is not looked at.
std::vector<ValueAxis> value_axes(const Graph& graph, ValueId value,
                                  const std::vector<Axis>& producer);
std::vector<ValueAxis> value_axes(const Graph& graph, ValueId value);

// Dimension −1: a value of this type has no batch.
AxisUse batch_use(const ValueType& type);

}  // namespace plimsoll::graph
