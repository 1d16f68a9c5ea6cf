#include "backend/cpu/cpu.h"

#include "backend/cpu/catalog.h"
#include "base/format.h"

namespace plimsoll::backend {
namespace cpu {
namespace {

// Counts up with every change that gives other bits than before, of kernels or of their blocks.
// Checkpoints and plans of another revision say so.
constexpr int kRevision = 5;

std::string id_of(const CpuInfo& cpu) { return backend_id(fmt::format("cpu/r{}", kRevision), cpu); }

// Measured, as tests/cli/test_memory_prediction.py does: a process that has made kernels.
constexpr Bytes kEngineBytes = 10_MiB + 512_KiB;
// A thread that kernels share their work with: its stacks, and code that runs on it alone.
constexpr Bytes kThreadBytes = 160_KiB;
// Objects of a node's kernels at block and tail.
constexpr Bytes kNodeBytes = 2_KiB;

class Cpu final : public Backend {
 public:
  Cpu(const CpuInfo& cpu, const KernelSetOptions& options, Bytes linked)
      : library_(cpu, options, true),
        catalog_(library_, cpu, options, id_of(cpu), true),
        linked_(linked) {}

  std::string_view name() const override { return "cpu"; }
  const graph::KernelCatalog& catalog() const override { return catalog_; }
  ops::Offers offers() const override { return cpu::offers(); }
  std::vector<ops::PackOffer> packs(const graph::Graph& graph, graph::NodeId node) const override {
    return cpu::packs(library_, graph, node);
  }
  std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) override {
    return library_.make(request);
  }
  std::unique_ptr<Kernel> make_encoder(const EncoderRequest& request) override {
    return library_.make_encoder(request);
  }
  ResidentBytes resident_bytes(const graph::ProgramSet& programs) const override {
    int64_t nodes = 0;
    for (const graph::Program& program : programs.programs)
      nodes += std::ssize(program.graph.nodes);
    const Bytes engine = kEngineBytes + linked_ + kThreadBytes * (catalog_.thread_count() - 1);
    const Bytes kernels = kNodeBytes * nodes;
    const Bytes making = engine + kernels;
    return {.engine = engine, .kernels = kernels, .start_up = making, .making = making};
  }

 private:
  KernelLibrary library_;
  Catalog catalog_;
  Bytes linked_;
};

}  // namespace
}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(const KernelSetOptions& options, Bytes linked) {
  const CpuInfo cpu = read_cpu_info();
  return std::make_unique<cpu::Cpu>(cpu, cpu::resolved(options, cpu), linked);
}

}  // namespace plimsoll::backend
