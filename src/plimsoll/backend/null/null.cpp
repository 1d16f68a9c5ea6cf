#include "backend/null/null.h"

#include <chrono>
#include <thread>
#include <utility>

#include "backend/reference/catalog.h"
#include "backend/reference/reference.h"
#include "base/clock.h"
#include "graph/op.h"
#include "graph/op_traits.h"

namespace plimsoll::backend {
namespace {

constexpr std::string_view kSleeping = "sleeping";

class Nothing final : public Kernel {
 public:
  void run(const KernelCall&) const noexcept override {}
};

// What kernels would have taken, slept in pieces that a clock can tell.
class Sleep {
 public:
  void add(double seconds) {
    owed_ += seconds;
    if (owed_ >= kPiece) pay();
  }
  void pay() {
    if (owed_ <= 0) return;
    const double begin = clock_.seconds();
    std::this_thread::sleep_for(std::chrono::duration<double>(owed_));
    owed_ -= clock_.seconds() - begin;  // what it sleeps too long counts for what comes next
  }

 private:
  static constexpr double kPiece = 1e-3;
  SteadyClock clock_;
  double owed_ = 0;
};

class Sleeping final : public Kernel {
 public:
  Sleeping(Sleep& sleep, double seconds) : sleep_(sleep), seconds_(seconds) {}
  void run(const KernelCall&) const noexcept override { sleep_.add(seconds_); }

 private:
  Sleep& sleep_;
  double seconds_;
};

// Begins when all before it is over.
class Awake final : public Kernel {
 public:
  Awake(Sleep& sleep, std::unique_ptr<Kernel> kernel) : sleep_(sleep), kernel_(std::move(kernel)) {}
  void run(const KernelCall& call) const noexcept override {
    sleep_.pay();
    kernel_->run(call);
  }

 private:
  Sleep& sleep_;
  std::unique_ptr<Kernel> kernel_;
};

class Null final : public Backend {
 public:
  Null(std::string_view name, const KernelSetOptions& options, Bytes linked)
      : name_(name), catalog_(name, options), linked_(linked) {}

  std::string_view name() const override { return name_; }
  const graph::KernelCatalog& catalog() const override { return catalog_; }
  ops::Offers offers() const override { return reference_offers(); }
  // The reference's kernel is made and thrown away, for its checks. What ranks exchange goes on its
  // way, so that its time can be measured by itself.
  std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) override {
    std::unique_ptr<Kernel> kernel = make_reference_kernel(request);
    const bool exchanges = request.graph.node(request.node).op->traits().exchanges;
    if (name_ == kSleeping) {
      if (exchanges) return std::make_unique<Awake>(sleep_, std::move(kernel));
      return std::make_unique<Sleeping>(
          sleep_, catalog_.seconds(request.graph, request.node, request.batch, request.extents));
    }
    if (exchanges) return kernel;
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
  std::string_view name_;
  ReferenceCatalog catalog_;
  Bytes linked_;
  Sleep sleep_;
};

}  // namespace

std::unique_ptr<Backend> make_null_backend(const KernelSetOptions& options, Bytes linked) {
  return std::make_unique<Null>("null", options, linked);
}

std::unique_ptr<Backend> make_sleeping_backend(const KernelSetOptions& options, Bytes linked) {
  return std::make_unique<Null>(kSleeping, options, linked);
}

}  // namespace plimsoll::backend
