#pragma once

// What a backend of these kernels tells of them: blocks, scratch, times.

#include <string>

#include "backend/cpu/cost_model.h"
#include "backend/cpu/kernel_library.h"
#include "graph/kernel_catalog.h"

namespace plimsoll::backend::cpu {

// The options with counts of parts and threads, no more threads than parts.
KernelSetOptions resolved(KernelSetOptions options, const CpuInfo& cpu);
// All that kernels and blocks depend on beside the options; `backend` names it with its revision.
std::string backend_id(const std::string& backend, const CpuInfo& cpu);

// What the fuse pass may merge.
ops::Offers offers();
// Which weights the node wants packed.
std::vector<ops::PackOffer> packs(const KernelLibrary& library, const graph::Graph& graph,
                                  graph::NodeId node);

class Catalog final : public graph::KernelCatalog {
 public:
  // `backend`: as backend_id says it. Keeps a reference to the library.
  Catalog(const KernelLibrary& library, const CpuInfo& cpu, const KernelSetOptions& options,
          const std::string& backend, bool alone);

  std::string kernel_set() const override { return id_; }
  int block_set() const override { return options_.block_set; }
  int part_count() const override { return options_.parts; }
  int thread_count() const override { return options_.threads; }

  graph::Block block(const graph::Graph& graph, graph::NodeId node) const override;
  std::shared_ptr<const void> remember(const graph::Graph& graph) const override;
  Bytes scratch(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                std::span<const int64_t> extents,
                std::span<const std::string> forms) const override;
  double seconds(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                 std::span<const int64_t> extents) const override;
  bool row_exact(const graph::Graph& graph, graph::NodeId node, int axis) const override;
  double spill_seconds(Bytes bytes, Spill direction) const override;
  double copy_seconds(Bytes bytes) const override;
  Bytes cached() const override;
  double memory_seconds(Bytes bytes) const override;

 private:
  const KernelLibrary& library_;
  CostModel costs_;
  KernelSetOptions options_;
  std::string id_;
};

}  // namespace plimsoll::backend::cpu
