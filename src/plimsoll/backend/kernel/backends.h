#pragma once

// Makes backends. A backend that was not built throws a kBackend error that says so.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/kernel/kernel.h"

namespace plimsoll::backend {

// What may be asked of a kernel set; the id of the set names it all.
struct KernelSetOptions {
  int parts = 0;      // into which a kernel's work is cut; 0: as many as threads
  int threads = 0;    // that run parts, in no id; 0: from affinity and CPU quota
  int block_set = 0;  // all extents above 1 halved so many times
  // Upper bounds of block extents by axis name ("batch", 4), in name order; part of the id.
  std::vector<std::pair<std::string, int64_t>> caps{};
  friend bool operator==(const KernelSetOptions&, const KernelSetOptions&) = default;
};

// "onednn", "cpu", "reference", "null", "sleeping"; throws kConfig with a did-you-mean.
std::unique_ptr<Backend> make_backend(std::string_view name, const KernelSetOptions& options);
// The best backend of this build: onednn, or cpu.
std::string_view default_backend();
// Those of this build that compute, the reference first.
std::vector<std::string> computing_backends();
// An address in the vendor's library; null: this build has none.
const void* vendor_code();

// "reference/t1;batch<=4;units<=8;block_set=1": the options that a kernel-set id spells, and the id
// that options spell; t1 is the count of parts. `backend` names the backend and all that its
// kernels depend on beside the options ("onednn-3.2/r3/avx512_bf16"); caps stand in name order,
// block_set only where it is not 0; an id has no blanks. parse throws kConfig.
KernelSetOptions parse_kernel_set(std::string_view id);
std::string kernel_set_id(std::string_view backend, const KernelSetOptions& options);

}  // namespace plimsoll::backend
