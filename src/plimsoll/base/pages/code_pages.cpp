#include "base/pages/code_pages.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace plimsoll {
namespace {

constexpr uintptr_t kPiece = 32 << 10;

// Read by whoever predicts, on any thread.
constinit std::atomic<bool> code_cut = false;

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

// Calls `use` with the begin and end of each segment that nothing is written to.
template <typename Use>
void for_each_constant_segment(const dl_phdr_info& object, const Use& use) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    const uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
    use(begin, begin + segment.p_filesz);
  }
}

bool holds(const dl_phdr_info& object, const void* address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& segment = object.dlpi_phdr[i];
    const uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && number(address) >= begin &&
        number(address) < begin + segment.p_memsz) {
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

// False where the kernel refuses.
bool cut(const dl_phdr_info& object) {
  bool done = true;
  for_each_constant_segment(object, [&](uintptr_t begin, uintptr_t end) {
    // Every second piece.
    for (uintptr_t at = (begin + kPiece - 1) / kPiece * kPiece; done && at + kPiece <= end;
         at += 2 * kPiece) {
      done = ::madvise(reinterpret_cast<void*>(at), kPiece, MADV_DONTDUMP) == 0;
    }
  });
  return done;
}

void drop(const dl_phdr_info& object) {
  if (has_text_relocations(object)) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  for_each_constant_segment(object, [&](uintptr_t begin, uintptr_t end) {
    const uintptr_t first = begin / page * page;
    const uintptr_t last = (end + page - 1) / page * page;
    ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  });
}

int cut_any(dl_phdr_info* object, size_t, void*) { return cut(*object) ? 0 : 1; }

int cut_one(dl_phdr_info* object, size_t, void* addresses) {
  const auto wanted = *static_cast<std::span<const void* const>*>(addresses);
  if (std::ranges::none_of(wanted, [&](const void* each) { return holds(*object, each); })) {
    return 0;
  }
  if (!cut(*object)) return 1;
  drop(*object);
  if (holds(*object, reinterpret_cast<const void*>(&cut_loaded_code))) code_cut = true;
  return 0;
}

struct Dropped {
  const void* address;
  const void* but_not;
};

int drop_one(dl_phdr_info* object, size_t, void* dropped) {
  const auto [address, but_not] = *static_cast<const Dropped*>(dropped);
  if (!holds(*object, address)) return 0;
  if (but_not == nullptr || !holds(*object, but_not)) drop(*object);
  return 1;
}

}  // namespace

void cut_loaded_code() {
  if (::dl_iterate_phdr(cut_any, nullptr) == 0) code_cut = true;
}

void cut_code_of(std::span<const void* const> addresses) { ::dl_iterate_phdr(cut_one, &addresses); }

bool code_is_cut() { return code_cut; }

void drop_code_of(const void* address, const void* but_not) noexcept {
  Dropped dropped = {address, but_not};
  ::dl_iterate_phdr(drop_one, &dropped);
}

}  // namespace plimsoll
