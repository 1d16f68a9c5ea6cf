#pragma once

// The blocks of this backend's kernel set.
//
// Four kinds of nodes, by what decides their batch extent (numbers: docs/design/0002-kernel-sets):
//
//   convolutions   enough work in a call to hide its start, operands within half of the L2 caches
//                  together; a weight gradient also enough to hide the pass that adds it up, and
//                  Winograd's products enough tiles to reuse the weights
//   dense layers   16 to 128 rows to reuse the weights, fewer where a row is long
//   recurrences    8 samples a thread, which share each weight that a step reads, within 8 MiB
//   all others     operands of a call within half of the L2 caches
//
// A slice of a loop is a multiple of every block in it, so a light node must not ask for more rows
// than the heavy nodes whose results it reads: its extent is at most theirs. In the same way a
// dense layer asks for no more rows than the dense layers before it. That looks at the graph above
// the node, and at nothing else: neither limit nor batch size nor other programs play a part.

#include <map>
#include <memory>
#include <vector>

#include "backend/cpu/cpu_kernels.h"
#include "backend/kernel/backends.h"
#include "base/cpu.h"
#include "graph/kernel_catalog.h"

namespace plimsoll::backend::cpu {

class Blocks {
 public:
  // `options.threads` is the resolved count; `alone`: no other backend's products beside ours.
  Blocks(const CpuInfo& cpu, const KernelSetOptions& options, bool alone = false);

  graph::Block block(const graph::Graph& graph, graph::NodeId node) const;
  // See KernelCatalog::remember.
  std::shared_ptr<const void> remember(const graph::Graph& graph) const;
  // Nodes that were looked at above others, in all.
  int64_t visits() const { return visits_; }

 private:
  // What is known of a node, all of it powers of two; 0: not known yet.
  struct Ceiling {
    int16_t own = 0;       // what it prefers
    int16_t of_all = 0;    // the least among the heavy nodes above it
    int16_t of_dense = 0;  // where dense layers alone count
  };
  using Ceilings = std::vector<Ceiling>;
  struct Memory {
    Ceilings ceilings;
    std::vector<graph::Block> boxes;  // of nodes; not known yet where `known` is false
    std::vector<bool> known;
  };

  std::shared_ptr<Memory> memory_of(const graph::Graph& graph) const;
  graph::Block find_block(const graph::Graph& graph, graph::NodeId node) const;
  int64_t preferred(const graph::Graph& graph, graph::NodeId node) const;
  int64_t preferred_convolution(const graph::Graph& graph, graph::NodeId node) const;
  // Samples that fill a chunk of Winograd's tiles for each thread, or that share a heavy kernel;
  // 1: others' products.
  int64_t product_samples(const graph::Graph& graph, graph::NodeId node) const;
  int64_t preferred_dense(const graph::Graph& graph, graph::NodeId node) const;
  // Samples whose rows make the way of a weight that is in no second cache worth its while; 1: it
  // is in one.
  int64_t distant_weight_samples(const graph::Graph& graph, graph::NodeId node) const;
  // Whether a weight of that size leaves the last cache between two calls.
  bool is_far(double weight_bytes) const { return weight_bytes >= last_cache_bytes_ / 8; }
  int64_t preferred_recurrent(const graph::Graph& graph, graph::NodeId node) const;
  // At most the extents of the heavy nodes above.
  int64_t limited(const graph::Graph& graph, graph::NodeId node, int64_t extent) const;
  int64_t find_ceiling(const graph::Graph& graph, graph::NodeId node, bool dense_only,
                       Ceilings& known) const;

  KernelSetOptions options_;
  CpuOptions cpu_options_;
  double caches_bytes_;      // L2 of all threads together
  double last_cache_bytes_;  // L3
  int64_t pieces_from_;      // units from which dense layers are packed_dense's; 0: none
  mutable int64_t visits_ = 0;
  // Graphs that somebody holds are remembered. The backend is used from one host thread.
  mutable std::map<const graph::Graph*, std::weak_ptr<Memory>> remembered_;
};

}  // namespace plimsoll::backend::cpu
