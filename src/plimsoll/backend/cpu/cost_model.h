#pragma once

// Estimated times of kernel calls: the larger of arithmetic and traffic, and the start of a call.
//
// They decide between plans and never change a result. Rates are per instruction set and operator
// family, measured by bench/step_kernels (docs/design/0002-kernel-sets.md has the numbers).

#include "backend/cpu/cpu_kernels.h"
#include "backend/kernel/backends.h"
#include "base/cpu.h"
#include "graph/kernel_catalog.h"

namespace plimsoll::backend::cpu {

class CostModel {
 public:
  // `options` with parts and threads, as resolved() gives them.
  CostModel(const CpuInfo& cpu, const KernelSetOptions& options, bool alone);

  // The seconds of a call with these extents; `own` says that it runs on our kernels or the
  // vendor's, and not on the reference's plain loops.
  double seconds(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                 std::span<const int64_t> extents, bool own) const;
  double copy_seconds(Bytes bytes) const;
  static double spill_seconds(Bytes bytes);
  Bytes cached() const;
  static double memory_seconds(Bytes bytes);

 private:
  bool is_winograd(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                   std::span<const int64_t> extents) const;

  // Steps that wait for each other: at each, every thread reads all weights for its samples.
  double recurrent_seconds(const NodeFacts& facts, double flops) const;

  double flops_per_thread_;
  double bf16_ = 1.0;
  double last_cache_bytes_;
  double own_cache_bytes_;  // of a thread; what is a little larger mostly stays in it, too
  int threads_;             // that run parts at the same time
  CpuOptions options_;
};

}  // namespace plimsoll::backend::cpu
