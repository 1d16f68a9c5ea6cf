#include "backend/onednn/onednn.h"

#include "backend/cpu/catalog.h"
#include "backend/onednn/library_pages.h"
#include "backend/onednn/primitives.h"
#include "backend/onednn/resident.h"
#include "base/format.h"

namespace plimsoll::backend {
namespace onednn {
namespace {

using graph::Graph;
using graph::NodeId;

// Counts up with every change that gives other bits than before: of our own kernels, of their
// blocks, of what the vendor's primitives are asked for. Checkpoints and plans of another revision
// say so.
constexpr int kRevision = 13;

std::string backend_id(const CpuInfo& cpu) {
  const dnnl_version_t* version = dnnl_version();
  return cpu::backend_id(fmt::format("onednn-{}.{}/r{}", version->major, version->minor, kRevision),
                         cpu);
}

class Onednn final : public Backend {
 public:
  Onednn(const CpuInfo& cpu, const KernelSetOptions& options)
      : library_(cpu, options), catalog_(library_, cpu, options, backend_id(cpu), false) {}

  std::string_view name() const override { return "onednn"; }
  const graph::KernelCatalog& catalog() const override { return catalog_; }
  ops::Offers offers() const override { return cpu::offers(); }
  std::vector<ops::PackOffer> packs(const Graph& graph, NodeId node) const override {
    return cpu::packs(library_, graph, node);
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
  PrimitiveLibrary library_;
  cpu::Catalog catalog_;
};

}  // namespace
}  // namespace onednn

bool has_onednn() { return true; }
const void* onednn_code() { return onednn::library_code(); }

std::unique_ptr<Backend> make_onednn_backend(const KernelSetOptions& options) {
  const CpuInfo cpu = read_cpu_info();
  if (cpu.forced) onednn::keep_within(cpu.isa);
  return std::make_unique<onednn::Onednn>(cpu, cpu::resolved(options, cpu));
}

}  // namespace plimsoll::backend
