#pragma once

// Finds convolutions whose result goes through a maximum pooling and nowhere else.

#include <string_view>
#include <vector>

#include "graph/ir.h"

namespace plimsoll::ops {

// A fused group: it stands where `place` stood and is called so; the other members are gone.
struct Group {
  graph::NodeId place;
  std::string_view op;
  std::vector<graph::ValueId> inputs;
  graph::Attributes attributes;
  std::vector<graph::ValueId> outputs;
  std::vector<graph::NodeId> members;  // `place` among them
};

// The groups around this max_pool2d node: the forward pass, and where the graph has them the
// gradients of kernel, bias and input straight from the pooled gradient. Empty where a value in
// between has another reader, the windows do not lie side by side, or the convolution has groups or
// is dilated. `users` as of find_users.
//
//   conv2d ─ bias_add ─ activation relu ─┬─ max_pool2d ─┬─ y
//                                        │              └─ winners ─┐
//   conv2d_grad_kernel ─┐                │                          │
//   bias_grad ──────────┼── activation_grad ────────── max_pool2d_grad ── dy
//   conv2d_grad_input ──┘
std::vector<Group> match_pooled(const graph::Graph& graph,
                                const std::vector<std::vector<graph::NodeId>>& users,
                                graph::NodeId pool);

}  // namespace plimsoll::ops
