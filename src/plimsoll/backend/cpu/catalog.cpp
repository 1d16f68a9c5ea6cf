#include "backend/cpu/catalog.h"

#include <algorithm>

#include "base/format.h"

namespace plimsoll::backend::cpu {

using graph::Graph;
using graph::NodeId;

KernelSetOptions resolved(KernelSetOptions options, const CpuInfo& cpu) {
  if (options.threads == 0) options.threads = cpu.default_threads;
  if (options.parts == 0) options.parts = options.threads;
  options.threads = std::min(options.threads, options.parts);
  return options;
}

std::string backend_id(const std::string& backend, const CpuInfo& cpu) {
  return fmt::format("{}/{}/l2={}K/l3={}K", backend, cpu.isa, cpu.l2_bytes.count() >> 10,
                     cpu.l3_bytes.count() >> 10);
}

ops::Offers offers() {
  return {.conv2d_bias = true,
          .conv2d_relu = true,
          .dense_bias = true,
          .dense_relu = true,
          .conv2d_max_pool = true,
          .dense_crossentropy = true,
          .kernel_gradient_bias = true,
          .dense_update = 4_MiB,
          .dense_update_rows = 512};
}

std::vector<ops::PackOffer> packs(const KernelLibrary& library, const Graph& graph, NodeId node) {
  const auto layout = library.wanted_layout(graph, node);
  if (!layout) return {};
  return {{.input = 1, .layout = layout->name, .bytes = layout->bytes}};
}

Catalog::Catalog(const KernelLibrary& library, const CpuInfo& cpu, const KernelSetOptions& options,
                 const std::string& backend, bool alone)
    : library_(library),
      costs_(cpu, options, alone),
      options_(options),
      id_(kernel_set_id(backend, options)) {}

graph::Block Catalog::block(const Graph& graph, NodeId node) const {
  return library_.blocks().block(graph, node);
}

std::shared_ptr<const void> Catalog::remember(const Graph& graph) const {
  return library_.blocks().remember(graph);
}

Bytes Catalog::scratch(const Graph& graph, NodeId node, int64_t batch,
                       std::span<const int64_t> extents, std::span<const std::string> forms) const {
  return library_.scratch(graph, node, batch, extents, forms);
}

double Catalog::seconds(const Graph& graph, NodeId node, int64_t batch,
                        std::span<const int64_t> extents) const {
  return costs_.seconds(graph, node, batch, extents, library_.own(graph, node, batch, extents));
}

bool Catalog::row_exact(const Graph& graph, NodeId node, int axis) const {
  return library_.row_exact(graph, node, axis);
}

double Catalog::spill_seconds(Bytes bytes, Spill) const { return CostModel::spill_seconds(bytes); }
double Catalog::copy_seconds(Bytes bytes) const { return costs_.copy_seconds(bytes); }

Bytes Catalog::cached() const { return costs_.cached(); }

double Catalog::memory_seconds(Bytes bytes) const { return CostModel::memory_seconds(bytes); }

}  // namespace plimsoll::backend::cpu
