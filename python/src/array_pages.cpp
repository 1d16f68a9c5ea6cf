#include "array_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace plimsoll::python {
namespace {

constexpr size_t kPiece = 4 << 20;  // that is there twice at a time

bool write_whole(int file, const char* from, size_t size, off_t offset) {
  while (size > 0) {
    const ssize_t done = ::pwrite(file, from, size, offset);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    from += done;
    offset += done;
    size -= static_cast<size_t>(done);
  }
  return true;
}

}  // namespace

int share_pages(void* begin, size_t size) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t head = reinterpret_cast<uintptr_t>(begin) % page;
  char* const first = static_cast<char*>(begin) - head;  // its page's begin is that of the file
  const size_t end = head + size;
  const int file = ::memfd_create("plimsoll-array", MFD_CLOEXEC);
  if (file < 0) return -1;
  bool good = ::ftruncate(file, static_cast<off_t>((end + page - 1) / page * page)) == 0;
  const size_t inner = std::min((head + page - 1) / page * page, end);
  const size_t inner_end = std::max(end / page * page, inner);
  good = good && write_whole(file, first + head, inner - head, static_cast<off_t>(head));
  for (size_t at = inner; good && at < inner_end; at += kPiece) {
    const size_t length = std::min(kPiece, inner_end - at);
    good = write_whole(file, first + at, length, static_cast<off_t>(at));
    // Where it cannot be mapped the array keeps these pages, and the file has a copy.
    if (good) {
      ::mmap(first + at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file,
             static_cast<off_t>(at));
    }
  }
  good =
      good && write_whole(file, first + inner_end, end - inner_end, static_cast<off_t>(inner_end));
  if (good) return file;
  const int error = errno;
  ::close(file);
  errno = error;
  return -1;
}

}  // namespace plimsoll::python
