#include "backend/onednn/library_pages.h"

#include "backend/onednn/vendor_api.h"
#include "base/pages/code_pages.h"

namespace plimsoll::backend::onednn {

const void* library_code() { return reinterpret_cast<const void*>(vendor_api().dnnl_version); }

// Linked into our own binary: its pages are in use.
void drop_library_pages() noexcept {
  drop_code_of(library_code(), reinterpret_cast<const void*>(&drop_library_pages));
}

}  // namespace plimsoll::backend::onednn
