#include "backend/onednn/onednn.h"
#include "base/error.h"

namespace plimsoll::backend {

bool has_onednn() { return false; }
const void* onednn_code() { return nullptr; }

std::unique_ptr<Backend> make_onednn_backend(const KernelSetOptions&) {
  throw Error(ErrorKind::kBackend,
              "backend onednn: expected a build with oneDNN, received one without. Configure with "
              "-DPLIMSOLL_ONEDNN=ON, or use --backend cpu.");
}

}  // namespace plimsoll::backend
