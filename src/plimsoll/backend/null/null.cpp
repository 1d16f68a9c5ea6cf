#include "backend/null/null.h"

#include "backend/reference/catalog.h"
#include "backend/reference/reference.h"
#include "graph/op.h"
#include "graph/op_traits.h"

namespace plimsoll::backend {
namespace {

class Nothing final : public Kernel {
 public:
  void run(const KernelCall&) const noexcept override {}
};

class Null final : public Backend {
 public:
  Null(const KernelSetOptions& options, Bytes linked)
      : catalog_("null", options), linked_(linked) {}

  std::string_view name() const override { return "null"; }
  const graph::KernelCatalog& catalog() const override { return catalog_; }
  ops::Offers offers() const override { return reference_offers(); }
  // The reference's kernel is made and thrown away, for its checks. What ranks exchange goes on its
  // way, so that its time can be measured by itself.
  std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) override {
    std::unique_ptr<Kernel> kernel = make_reference_kernel(request);
    if (request.graph.node(request.node).op->traits().exchanges) return kernel;
    return std::make_unique<Nothing>();
  }
  std::unique_ptr<Kernel> make_encoder(const EncoderRequest& request) override {
    make_reference_encoder(request);
    return std::make_unique<Nothing>();
  }
  bool computes() const override { return false; }
  ResidentBytes resident_bytes(const graph::ProgramSet& programs) const override {
    return reference_resident_bytes(programs, linked_);
  }

 private:
  ReferenceCatalog catalog_;
  Bytes linked_;
};

}  // namespace

std::unique_ptr<Backend> make_null_backend(const KernelSetOptions& options, Bytes linked) {
  return std::make_unique<Null>(options, linked);
}

}  // namespace plimsoll::backend
