// How much of a program's files one fault maps.
//
// A fault on a page of code maps the whole piece (folio) in which the page cache holds it, since
// Linux 6.18 whatever its size, and files that were written or read in large pieces lie in pieces
// of up to 2 MiB. The same start then took 27 to 42 MiB, which nobody can predict. A piece is
// mapped as a whole only where it lies inside of one mapping, so code is cut into mappings of 32
// KiB, half of what faults reach around them anyway. What tells neighbours apart is a flag without
// meaning for code: whether core dumps hold it (they never do).
//
// It has to happen before the libraries' initializers walk through their code, so it runs as the
// program's first function, ahead of theirs. It allocates nothing, and where the kernel refuses a
// cut, more is mapped.

#include <link.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "base/process_memory.h"

namespace plimsoll::cli {
namespace {

constexpr uintptr_t kPiece = 32 << 10;

int cut_object(dl_phdr_info* object, size_t, void*) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    const uintptr_t first = object->dlpi_addr + segment.p_vaddr;
    const uintptr_t end = first + segment.p_filesz;
    // Every second piece.
    for (uintptr_t at = (first + kPiece - 1) / kPiece * kPiece; at + kPiece <= end;
         at += 2 * kPiece) {
      if (::madvise(reinterpret_cast<void*>(at), kPiece, MADV_DONTDUMP) != 0) return 1;
    }
  }
  return 0;
}

[[maybe_unused]] void cut_code(int, char**, char**) {
  if (::dl_iterate_phdr(cut_object, nullptr) == 0) note_code_is_cut();
}

// The sanitizers' own memory is not there yet when the first function runs.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
using FirstFunction = void (*)(int, char**, char**);
[[gnu::section(".preinit_array"), gnu::used, gnu::retain]] constexpr FirstFunction kFirstFunction =
    cut_code;
#endif

}  // namespace
}  // namespace plimsoll::cli
