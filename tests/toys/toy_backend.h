#pragma once

// Kernels of the toy operators: plain loops over strided regions, float32. A kernel really uses the
// scratch that the catalog asks for, to its last byte.

#include "backend/kernel/kernel.h"
#include "toys/toy_ops.h"

namespace plimsoll::toys {

class ToyBackend final : public backend::Backend {
 public:
  ToyCatalog& toy_catalog() { return catalog_; }
  std::string_view name() const override { return "toy"; }
  const graph::KernelCatalog& catalog() const override { return catalog_; }
  std::unique_ptr<backend::Kernel> make_kernel(const backend::KernelRequest& request) override;
  std::unique_ptr<backend::Kernel> make_encoder(const backend::EncoderRequest& request) override;
  backend::ResidentBytes resident_bytes(const graph::ProgramSet&) const override { return {}; }

 private:
  ToyCatalog catalog_;
};

}  // namespace plimsoll::toys
