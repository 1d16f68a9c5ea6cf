#include "exec/spill_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/format.h"
#include "base/process_memory.h"

namespace plimsoll::exec {

PageBuffer::PageBuffer(Bytes bytes) : bytes_(bytes) {
  void* address =
      ::mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) throw_io("buffer", fmt::format("take {}", to_string(bytes)), errno);
  data_ = static_cast<std::byte*>(address);
}

PageBuffer::~PageBuffer() { ::munmap(data_, bytes_.size()); }

SpillFile::SpillFile(const std::string& folder, Bytes bytes)
    : page_(page_size().count()), file_(File::unlinked(folder)), edge_(page_size()) {
  const int error = ::posix_fallocate(file_.descriptor(), 0, round_up(bytes, page_size()).count());
  if (error != 0) {
    throw_io(folder, fmt::format("take {} for the spill file", to_string(bytes)), error,
             "Name a folder with more space by --spill-dir, or pass --no-spill.");
  }
  direct_ = file_.past_cache();
}

void SpillFile::read_pages(std::byte* pages, int64_t offset, int64_t bytes) const {
  const int64_t first = offset / page_ * page_;
  const int64_t whole = round_up(offset + bytes, page_) - first;
  if (move_directly(false, pages, first, whole)) return;
  file_.read_at(offset, {pages + (offset - first), static_cast<size_t>(bytes)});
  file_.drop_cache(offset, bytes);
}

void SpillFile::write_pages(std::byte* pages, int64_t offset, int64_t bytes) {
  const int64_t first = offset / page_ * page_;
  const int64_t whole = round_up(offset + bytes, page_) - first;
  if (fill_edges(pages, offset, bytes) && move_directly(true, pages, first, whole)) return;
  file_.write_at(offset, {pages + (offset - first), static_cast<size_t>(bytes)});
  // Only pages that are clean leave the cache.
  ::sync_file_range(file_.descriptor(), offset, bytes,
                    SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  file_.drop_cache(offset, bytes);
}

// What the first and the last page hold besides; false: the device wants the cache.
bool SpillFile::fill_edges(std::byte* pages, int64_t offset, int64_t bytes) {
  const int64_t end = offset + bytes;
  const int64_t first = offset / page_ * page_;
  const int64_t last = (end - 1) / page_ * page_;
  const auto head = static_cast<size_t>(offset - first);
  const auto tail = static_cast<size_t>((last + page_ - end));
  const auto page = static_cast<size_t>(page_);
  if (head > 0) {
    if (!move_directly(false, edge_.data(), first, page_)) return false;
    std::memcpy(pages, edge_.data(), head);
  }
  if (tail > 0) {
    if ((head == 0 || last > first) && !move_directly(false, edge_.data(), last, page_)) {
      return false;
    }
    std::memcpy(pages + (end - first), edge_.data() + (page - tail), tail);
  }
  return true;
}

// False where the file system has no such way for these pages.
bool SpillFile::move_directly(bool to_file, std::byte* pages, int64_t first, int64_t bytes) const {
  if (!direct_.is_open()) return false;
  for (int64_t done = 0; done < bytes;) {
    const int64_t at = first + done;
    const auto left = static_cast<size_t>(bytes - done);
    const ssize_t moved = to_file ? ::pwrite(direct_.descriptor(), pages + done, left, at)
                                  : ::pread(direct_.descriptor(), pages + done, left, at);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0 && errno == EINVAL) return false;
    if (moved <= 0) {
      throw_io("spill file", to_file ? "write to it" : "read from it", moved < 0 ? errno : EIO,
               "Look at the disk that holds it, or name another folder with --spill-dir.");
    }
    // What the device ends within a page goes on through the cache.
    if (moved % page_ != 0) return false;
    done += moved;
  }
  return true;
}

}  // namespace plimsoll::exec
