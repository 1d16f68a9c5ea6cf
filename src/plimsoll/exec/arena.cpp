#include "exec/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/accounted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/process_memory.h"

namespace plimsoll::exec {

Arena::Arena(Bytes bytes) : bytes_(bytes), mapped_(round_up(max(bytes, Bytes(1)), page_size())) {
  const Bytes guard = page_size();
  const MemoryTag tag(MemoryPart::kArena);
  void* address = ::mmap(nullptr, (mapped_ + 2 * guard).size(), PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    throw_io("arena", fmt::format("reserve {} of address space", to_string(bytes)), errno,
             "Look at the limit of `ulimit -v`.");
  }
  data_ = static_cast<std::byte*>(address) + guard.size();
  if (::mprotect(data_, mapped_.size(), PROT_READ | PROT_WRITE) != 0) {
    const int error = errno;
    ::munmap(address, (mapped_ + 2 * guard).size());
    throw_io("arena", fmt::format("make {} accessible", to_string(bytes)), error,
             "Look at the limit of `ulimit -v`.");
  }
  // Kernels without huge pages know no such advice, and need none.
  ::madvise(data_, mapped_.size(), MADV_NOHUGEPAGE);
}

Arena::~Arena() {
  const Bytes guard = page_size();
  ::munmap(data_ - guard.size(), (mapped_ + 2 * guard).size());
}

Bytes Arena::resident() const { return min(resident_bytes(data_, mapped_), bytes_); }

}  // namespace plimsoll::exec
