// The library that we are linked with.

#include "backend/onednn/vendor_api.h"

namespace plimsoll::backend::onednn {

const VendorApi& vendor_api() {
#define PLIMSOLL_ADDRESS(name) &::name,
  static const VendorApi api = {PLIMSOLL_VENDOR_FUNCTIONS(PLIMSOLL_ADDRESS)};
#undef PLIMSOLL_ADDRESS
  return api;
}

}  // namespace plimsoll::backend::onednn
