#pragma once

// What a backend tells the planner about its kernels, without the planner knowing the backend.
//
// A kernel call computes exactly one block: a box with one extent per declared axis of the node
// (op.h, same order). Extents are powers of two or kWholeAxis; block k covers rows
// [k * extent, (k + 1) * extent) counted from the start of the axis (falling axes too), the last
// one is shorter. On an axis with groups the extent is theirs, a power of two or not. The block is
// a pure function of operator, shapes per sample, dtype, instruction set, cache sizes and the count
// of parts: never of the batch size, the limit, the threads or the clock. Scratch is exact; times
// are estimates that decide between plans and never change a result.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "graph/ir.h"

namespace plimsoll::graph {

// Block extents per axis of a node; kWholeAxis: the whole axis in one block.
inline constexpr int64_t kWholeAxis = 0;
using Block = std::vector<int64_t>;

class KernelCatalog {
 public:
  virtual ~KernelCatalog() = default;

  // Names backend, instruction set, parts and caps: equal ids, equal bits.
  virtual std::string kernel_set() const = 0;
  // 0: the blocks of the kernel set; k: all extents above 1 halved k times.
  virtual int block_set() const = 0;
  // Into how many parts a kernel's work is cut at most; what each computes is fixed by its number.
  virtual int part_count() const = 0;
  // How many threads run them: no result depends on it.
  virtual int thread_count() const = 0;

  virtual Block block(const Graph& graph, NodeId node) const = 0;

  // A node's block may depend on all that comes before it. Who asks about all nodes of a graph
  // holds what this returns meanwhile, so that this catalog looks at every node once and not at
  // each again for every other; the graph neither changes nor moves as long. No answer changes by
  // it. Null: there is nothing to hold.
  virtual std::shared_ptr<const void> remember(const Graph&) const { return nullptr; }

  // Scratch of one call of these concrete extents (one per axis; the whole axis spelled out).
  // `forms` names the saved form of each input, "" for the plain value; empty: all plain.
  virtual Bytes scratch(const Graph& graph, NodeId node, int64_t batch,
                        std::span<const int64_t> extents,
                        std::span<const std::string> forms) const = 0;

  // Estimated seconds of that call.
  virtual double seconds(const Graph& graph, NodeId node, int64_t batch,
                         std::span<const int64_t> extents) const = 0;

  // Whether a row's bits do not depend on the other rows of a call along that axis.
  virtual bool row_exact(const Graph& graph, NodeId node, int axis) const = 0;

  // What was touched since no more bytes were is in the caches yet, about; 0: there are none, or
  // nobody knows.
  virtual Bytes cached() const { return Bytes(); }
  // Estimated seconds in which the threads together read so many bytes from memory, or write them.
  virtual double memory_seconds(Bytes) const { return 0; }

  // Estimated seconds of the disk for one transfer of so many bytes to or from the spill file, and
  // those of copying within memory.
  enum class Spill : uint8_t { kRead, kWrite };
  virtual double spill_seconds(Bytes bytes, Spill direction) const = 0;
  virtual double copy_seconds(Bytes bytes) const = 0;
  // What the kernels beside it lose to one such transfer, whose threads want processors too; 0:
  // nobody knows.
  virtual double spill_work_seconds(Bytes) const { return 0; }
};

// Concrete block extents at a batch size: kWholeAxis replaced, nothing above the axis's extent, and
// groups where the axis has them.
std::vector<int64_t> concrete_block(const Graph& graph, NodeId node, const Block& block,
                                    int64_t batch);

}  // namespace plimsoll::graph
