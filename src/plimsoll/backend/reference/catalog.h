#pragma once

// Blocks, scratch and estimated times of the reference kernels (and of null's).

#include <string>
#include <string_view>

#include "backend/kernel/backends.h"
#include "graph/kernel_catalog.h"

namespace plimsoll::backend {

class ReferenceCatalog final : public graph::KernelCatalog {
 public:
  ReferenceCatalog(std::string_view backend, const KernelSetOptions& options);

  std::string kernel_set() const override { return id_; }
  int block_set() const override { return options_.block_set; }
  int part_count() const override { return 1; }
  int thread_count() const override { return 1; }

  graph::Block block(const graph::Graph& graph, graph::NodeId node) const override;
  Bytes scratch(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                std::span<const int64_t> extents,
                std::span<const std::string> forms) const override;
  double seconds(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                 std::span<const int64_t> extents) const override;
  bool row_exact(const graph::Graph& graph, graph::NodeId node, int axis) const override;
  double spill_seconds(Bytes bytes, Spill direction) const override;
  double copy_seconds(Bytes bytes) const override;

 private:
  KernelSetOptions options_;
  std::string id_;
};

}  // namespace plimsoll::backend
