#include "backend/onednn/onednn.h"

#include "backend/onednn/cost_model.h"
#include "backend/onednn/kernel_library.h"
#include "backend/onednn/library_pages.h"
#include "backend/onednn/resident.h"
#include "backend/reference/reference.h"
#include "graph/graph_memory.h"

namespace plimsoll::backend {
namespace onednn {
namespace {

using graph::Graph;
using graph::NodeId;

KernelSetOptions resolved(KernelSetOptions options, const CpuInfo& cpu) {
  if (options.threads == 0) options.threads = cpu.default_threads;
  return options;
}

// Counts up with every change that gives other bits than before: of our own kernels, of their
// boxes, of what the vendor's primitives are asked for. Checkpoints and plans of another revision
// say so.
constexpr int kRevision = 9;

// All that kernels and boxes depend on beside the options.
std::string backend_id(const CpuInfo& cpu) {
  const dnnl_version_t* version = dnnl_version();
  return "onednn-" + std::to_string(version->major) + "." + std::to_string(version->minor) + "/r" +
         std::to_string(kRevision) + "/" + cpu.isa +
         "/l2=" + std::to_string(cpu.l2_bytes.count() >> 10) +
         "K/l3=" + std::to_string(cpu.l3_bytes.count() >> 10) + "K";
}

class Catalog final : public graph::KernelCatalog, public graph::GraphMemory {
 public:
  Catalog(const KernelLibrary& library, const CpuInfo& cpu, const KernelSetOptions& options)
      : library_(library),
        costs_(cpu, options.threads),
        options_(options),
        id_(kernel_set_id(backend_id(cpu), options)) {}

  std::string kernel_set() const override { return id_; }
  int block_set() const override { return options_.block_set; }
  int thread_count() const override { return options_.threads; }

  graph::Block block(const Graph& graph, NodeId node) const override {
    return library_.blocks().block(graph, node);
  }
  std::shared_ptr<const void> remember(const Graph& graph) const override {
    return library_.blocks().remember(graph);
  }
  Bytes scratch(const Graph& graph, NodeId node, int64_t batch, std::span<const int64_t> extents,
                std::span<const std::string> forms) const override {
    return library_.scratch(graph, node, batch, extents, forms);
  }
  double seconds(const Graph& graph, NodeId node, int64_t batch,
                 std::span<const int64_t> extents) const override {
    return costs_.seconds(graph, node, batch, extents, library_.own(graph, node, batch, extents));
  }
  bool row_exact(const Graph& graph, NodeId node, int axis) const override {
    return library_.row_exact(graph, node, axis);
  }
  double spill_seconds(Bytes bytes) const override { return CostModel::spill_seconds(bytes); }
  double copy_seconds(Bytes bytes) const override { return costs_.copy_seconds(bytes); }

 private:
  const KernelLibrary& library_;
  CostModel costs_;
  KernelSetOptions options_;
  std::string id_;
};

class Onednn final : public Backend {
 public:
  Onednn(const CpuInfo& cpu, const KernelSetOptions& options)
      : library_(cpu, options), catalog_(library_, cpu, options) {}

  std::string_view name() const override { return "onednn"; }
  const graph::KernelCatalog& catalog() const override { return catalog_; }
  ops::Offers offers() const override {
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
  std::vector<ops::PackOffer> packs(const Graph& graph, NodeId node) const override {
    const auto layout = library_.wanted_layout(graph, node);
    if (!layout) return {};
    return {{.input = 1, .layout = layout->name, .bytes = layout->bytes}};
  }
  std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) override {
    return library_.make(request);
  }
  std::unique_ptr<Kernel> make_encoder(const EncoderRequest& request) override {
    return library_.make_encoder(request);
  }
  void finish_making() override { drop_library_pages(); }
  ResidentBytes resident_bytes(const graph::ProgramSet& programs) const override {
    return estimate_resident_bytes(library_, programs, catalog_.thread_count());
  }

 private:
  KernelLibrary library_;
  Catalog catalog_;
};

}  // namespace
}  // namespace onednn

bool has_onednn() { return true; }
const void* onednn_code() { return onednn::library_code(); }

std::unique_ptr<Backend> make_onednn_backend(const KernelSetOptions& options) {
  const CpuInfo cpu = read_cpu_info();
  if (cpu.forced) onednn::keep_within(cpu.isa);
  return std::make_unique<onednn::Onednn>(cpu, onednn::resolved(options, cpu));
}

}  // namespace plimsoll::backend
