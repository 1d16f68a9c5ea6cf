// The program's code is cut (base/pages/code_pages.h) before the libraries' initializers walk
// through theirs, so it is done by the program's first function, ahead of theirs.

#include "base/pages/code_pages.h"

namespace plimsoll::cli {
namespace {

[[maybe_unused]] void cut_code(int, char**, char**) { cut_loaded_code(); }

// The sanitizers' own memory is not there yet when the first function runs.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
using FirstFunction = void (*)(int, char**, char**);
[[gnu::section(".preinit_array"), gnu::used, gnu::retain]] constexpr FirstFunction kFirstFunction =
    cut_code;
#endif

}  // namespace
}  // namespace plimsoll::cli
