#include "backend/onednn/library_pages.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "backend/onednn/vendor_api.h"

namespace plimsoll::backend::onednn {
namespace {

bool holds(const dl_phdr_info& object, uintptr_t address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& segment = object.dlpi_phdr[i];
    const uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= begin && address < begin + segment.p_memsz) {
      return true;
    }
  }
  return false;
}

// Code that was relocated when it was loaded is not what the file says.
bool has_text_relocations(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry =
        reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_TEXTREL) return true;
      if (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0) return true;
    }
  }
  return false;
}

int drop_object(dl_phdr_info* object, size_t, void* own_code) {
  const auto vendor = reinterpret_cast<uintptr_t>(library_code());
  if (!holds(*object, vendor)) return 0;
  // Linked into our own binary: its pages are in use.
  const bool shared = !holds(*object, reinterpret_cast<uintptr_t>(own_code));
  if (!shared || has_text_relocations(*object)) return 1;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    const uintptr_t first = object->dlpi_addr + segment.p_vaddr;
    const uintptr_t begin = first / page * page;
    const uintptr_t end = (first + segment.p_memsz + page - 1) / page * page;
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  return 1;
}

}  // namespace

const void* library_code() { return reinterpret_cast<const void*>(vendor_api().dnnl_version); }

void drop_library_pages() noexcept {
  ::dl_iterate_phdr(drop_object, reinterpret_cast<void*>(&drop_library_pages));
}

}  // namespace plimsoll::backend::onednn
