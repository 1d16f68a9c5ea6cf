#pragma once

// A few operators that between them have every kind of axis, for tests of plans and of exec.
//
//   scale(x){factor}                     elementwise, in place; batch map
//   gate(dy, x)                          dy where x > 0, in place of dy; takes x as positive_bits
//   shift(x (B, C), t (C))               x + t / 8, in place of x; batch map
//   total(x (B, C)) → (C)                batch reduce
//   lines(x (B, K), w (K, N)) → (B, N)   batch map, units map; has scratch
//   lines_grad(x (B, K), dy (B, N)) → (K, N)   batch reduce, units map
//   row_sum(y (B, N)) → (B)              batch map, units reduce
//   smooth(x (B, H)) → (B, H)            batch map, rows window: x[h-1] + 2 x[h] + x[h+1]
//   grand_total(y (B, N)) → ()           batch reduce, units reduce
//   backward_sum(x (B, T)) → (B)         batch map, time reduce, falling: 0.5 of it + x[t]
//   mix(x (B, C)) → (B, C)               no axis at all: x[b] - x[B-1-b]
//   flat(x (B, …)) → (B, rest)           a view
//   descend(w, g)                        w - g / 16, in place of w
// They take volumes (B, D, H, W), or of any other rank from (B, D) on, with axes depth, rows and
// columns:
//
//   lift(x){factor}                      factor · x + 1, in place; map over all axes
//   blur(x) → like x                     the sum over x[d-1 … d+1, h-1 … h+1]; batch map, windows
//                                        of depth and of rows
//   halve(x (B, D, …)) → (B, D/2, …)     x[2d] + 3 x[2d+1]; batch map, depth window
//   depth_sum(x (B, D, …)) → (B, …)      batch map, depth reduce
//   slab_sum(x (B, D, …)) → (D)          batch reduce, depth map
//
//   task(…){units, cost} → (B, units)    stands for any work: batch map; only planned, never run

#include <map>
#include <set>
#include <string>

#include "graph/kernel_catalog.h"
#include "graph/op.h"

namespace plimsoll::toys {

// The operators above and those of graph.
const graph::OpRegistry& registry();

// Blocks by node name (elsewhere one sample and all of other axes), 64 bytes of scratch a row for
// `lines`.
class ToyCatalog : public graph::KernelCatalog {
 public:
  std::map<std::string, graph::Block> blocks;
  std::set<std::string> row_exact_nodes;
  Bytes understated;     // taken off the scratch that is asked for
  double odd_nodes = 1;  // times as long as the others

  std::string kernel_set() const override { return "toy/t1"; }
  int block_set() const override { return 0; }
  int part_count() const override { return 1; }
  int thread_count() const override { return 1; }
  graph::Block block(const graph::Graph& graph, graph::NodeId node) const override;
  Bytes scratch(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                std::span<const int64_t> extents,
                std::span<const std::string> forms) const override;
  double seconds(const graph::Graph&, graph::NodeId node, int64_t,
                 std::span<const int64_t>) const override {
    return node.index() % 2 == 0 ? 1e-6 : 1e-6 * odd_nodes;
  }
  bool row_exact(const graph::Graph& graph, graph::NodeId node, int) const override;
  double spill_seconds(Bytes bytes, Spill) const override { return 1e-9 * bytes.size(); }
  double copy_seconds(Bytes bytes) const override { return 1e-10 * bytes.size(); }
};

}  // namespace plimsoll::toys
