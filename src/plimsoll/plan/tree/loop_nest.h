#pragma once

// The planner's own picture of a program: which nodes run in which order inside which loops over
// one axis. Everything else of a plan's tree follows from it.
//
// Nested loops. In a loop whose slice the largest block inside asks for, neighbouring nodes of
// smaller blocks may run in inner loops of smaller slices: what lives between them alone then has
// the size of the inner slice.
//
//   loop slice=64                      dense layers of block 64
//     loop slice=2                     convolutions of block 2, forward
//     end
//     dense … loss … dense's gradients
//     loop slice=2                     convolutions' gradients
//     end
//   end

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/facts/dependencies.h"
#include "plan/facts/order.h"

namespace plimsoll::plan {

// A node, or a loop by its place in LoopNest::loops.
struct NestItem {
  graph::NodeId node;
  int32_t loop = -1;
  friend bool operator==(const NestItem&, const NestItem&) = default;
};
struct NestLoop {
  int64_t slice = 0;
  std::vector<NestItem> items;
  int64_t extent = 0;  // 0: the rows around it
  friend bool operator==(const NestLoop&, const NestLoop&) = default;
};
struct LoopNest {
  std::vector<NestLoop> loops;
  std::vector<NestItem> items;  // the root
  LoopAxis axis = graph::kBatchAxis;
  friend bool operator==(const LoopNest&, const LoopNest&) = default;
};

// How one phase is cut.
struct PhaseShape {
  int64_t slice = 0;  // of the outer loop; the whole batch: no loop
  // Inner loops hold nodes whose slices may be at most this; 0: no inner loops; kNestFully: inner
  // loops of each node's own smallest slice, to any depth.
  int64_t inner = 0;
  friend bool operator==(const PhaseShape&, const PhaseShape&) = default;
};
inline constexpr int64_t kNestFully = -1;

// The smallest slice that a loop around all these nodes may have.
int64_t find_unit(const Dependencies& dependencies, std::span<const graph::NodeId> nodes);

// Puts phases and what stands between them one after another; `shapes` has one per phase. Phases
// without a loop and their neighbours are ordered as one stretch, so that gradients can be used as
// soon as they are there.
LoopNest make_loop_nest(const ProgramFacts& facts, const Dependencies& dependencies,
                        std::span<const std::vector<graph::NodeId>> slots,
                        std::span<const PhaseShape> shapes, OrderRule rule);

// Each node at the root, in the order of the graph.
LoopNest make_flat_loop_nest(const ProgramFacts& facts);

}  // namespace plimsoll::plan
