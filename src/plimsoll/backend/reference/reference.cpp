#include "backend/reference/reference.h"

#include "backend/reference/catalog.h"

namespace plimsoll::backend {
namespace {

class Reference final : public Backend {
 public:
  Reference(const KernelSetOptions& options, Bytes linked)
      : catalog_("reference", options), linked_(linked) {}

  std::string_view name() const override { return "reference"; }
  const graph::KernelCatalog& catalog() const override { return catalog_; }
  ops::Offers offers() const override { return reference_offers(); }
  std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) override {
    return make_reference_kernel(request);
  }
  std::unique_ptr<Kernel> make_encoder(const EncoderRequest& request) override {
    return make_reference_encoder(request);
  }
  ResidentBytes resident_bytes(const graph::ProgramSet& programs) const override {
    return reference_resident_bytes(programs, linked_);
  }

 private:
  ReferenceCatalog catalog_;
  Bytes linked_;
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend(const KernelSetOptions& options, Bytes linked) {
  return std::make_unique<Reference>(options, linked);
}

ops::Offers reference_offers() {
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

ResidentBytes reference_resident_bytes(const graph::ProgramSet& programs, Bytes linked) {
  // Measured, as tests/cli/test_memory_prediction.py does: a process that has made no kernels, and
  // the objects of a node's kernels at block and tail. A fault maps what the page cache holds
  // around it, so that runs of copies of the files differ by a MiB.
  constexpr Bytes kProgramBytes = 9_MiB + 512_KiB;
  constexpr Bytes kNodeBytes(512);
  const Bytes engine = kProgramBytes + linked;
  int64_t nodes = 0;
  for (const graph::Program& program : programs.programs) {
    nodes += static_cast<int64_t>(program.graph.nodes.size());
  }
  return {.engine = engine, .kernels = kNodeBytes * nodes, .start_up = engine, .making = engine};
}

}  // namespace plimsoll::backend
