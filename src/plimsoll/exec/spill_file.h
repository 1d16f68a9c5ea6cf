#pragma once

// The file that values are moved to and from.
//
// It has no name, its space is taken at construction, and it is read and written in whole pages
// past the page cache, so that what is moved out of memory does not come back as cache. Where the
// file system does not do that, the bytes go through the cache and are dropped from it. Callers
// bring buffers of whole pages; what is moved when, and by whom, is theirs (exec/spill_queue.h).

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/file.h"

namespace plimsoll::exec {

// Memory that starts at a page.
class PageBuffer {
 public:
  // Throws kIo where the system refuses it.
  explicit PageBuffer(Bytes bytes);
  ~PageBuffer();
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;
  std::byte* data() const { return data_; }
  size_t size() const { return bytes_.size(); }

 private:
  std::byte* data_ = nullptr;
  Bytes bytes_;
};

class SpillFile {
 public:
  // Throws kIo where the space is not there.
  SpillFile(const std::string& folder, Bytes bytes);

  int64_t page() const { return page_; }
  // Bytes [offset, offset + bytes) of the file; `pages` holds the pages around them, the first byte
  // at offset % page(). Writing fills the rest of the pages from the file; one thread at a time
  // writes. Throw kIo.
  void read_pages(std::byte* pages, int64_t offset, int64_t bytes) const;
  void write_pages(std::byte* pages, int64_t offset, int64_t bytes);

 private:
  bool move_directly(bool to_file, std::byte* pages, int64_t first, int64_t bytes) const;
  bool fill_edges(std::byte* pages, int64_t offset, int64_t bytes);

  int64_t page_;
  File file_;
  File direct_;      // the same past the page cache; closed: not to be had
  PageBuffer edge_;  // a page
};

}  // namespace plimsoll::exec
