#include "backend/kernel/backends.h"

#include <array>

#include "backend/cpu/cpu.h"
#include "backend/null/null.h"
#include "backend/onednn/onednn.h"
#include "backend/reference/reference.h"
#include "base/accounted.h"
#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"

namespace plimsoll::backend {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"cpu", "reference", "null", "sleeping",
                                                    "onednn"};
// What the vendor's library takes where it is linked and not called, measured as
// tests/cli/test_memory_prediction.py does.
constexpr Bytes kLinkedLibraryBytes = 15_MiB + 256_KiB;

void check(const KernelSetOptions& options) {
  if (options.threads < 0) {
    throw Error(ErrorKind::kConfig,
                fmt::format("threads: expected 0 (from the machine) or more, received {}.",
                            options.threads));
  }
  if (options.parts < 0) {
    throw Error(
        ErrorKind::kConfig,
        fmt::format("parts: expected 0 (as many as threads) or more, received {}.", options.parts));
  }
  if (options.block_set < 0) {
    throw Error(ErrorKind::kConfig,
                fmt::format("block set: expected 0 or more, received {}.", options.block_set));
  }
  for (const auto& [axis, most] : options.caps) {
    if (most >= 1) continue;
    throw Error(ErrorKind::kConfig,
                fmt::format("cap of axis \"{}\": expected 1 or more, received {}.", axis, most));
  }
}

}  // namespace

std::unique_ptr<Backend> make_backend(std::string_view name, const KernelSetOptions& options) {
  const MemoryTag tag(MemoryPart::kEngine);
  check(options);
  const Bytes linked = has_onednn() ? kLinkedLibraryBytes : Bytes();
  if (name == "cpu") return make_cpu_backend(options, linked);
  if (name == "reference") return make_reference_backend(options, linked);
  if (name == "null") return make_null_backend(options, linked);
  if (name == "sleeping") return make_sleeping_backend(options, linked);
  if (name == "onednn") return make_onednn_backend(options);
  throw Error(ErrorKind::kConfig,
              "backend: expected onednn, cpu, reference, null or sleeping, received \"" +
                  std::string(name) + "\"." + did_you_mean(name, kNames));
}

const void* vendor_code() { return onednn_code(); }

std::string_view default_backend() { return has_onednn() ? "onednn" : "cpu"; }

std::vector<std::string> computing_backends() {
  std::vector<std::string> names = {"reference", "cpu"};
  if (has_onednn()) names.emplace_back("onednn");
  return names;
}

}  // namespace plimsoll::backend
