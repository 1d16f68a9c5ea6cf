#pragma once

// The one block of memory that a plan's steps run in.
//
//   guard page │ bytes, rounded up to pages │ guard page
//
// Reserved without being touched: a page is in memory from the first access on. Guard pages cannot
// be accessed, so a kernel that runs far out of its operands dies instead of damaging the heap.
// Transparent huge pages are off in it: each page that is in memory was touched itself, and
// nothing beyond a touched page is.

#include <cstddef>
#include <span>

#include "base/bytes.h"

namespace plimsoll::exec {

class Arena {
 public:
  // Throws kIo where the system refuses the reservation.
  explicit Arena(Bytes bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* data() const { return data_; }
  Bytes bytes() const { return bytes_; }
  // The arena and the rest of its last page.
  std::span<std::byte> pages() const { return {data_, mapped_.size()}; }
  // Bytes of the arena that lie in resident pages. Throws kIo.
  Bytes resident() const;

 private:
  std::byte* data_ = nullptr;
  Bytes bytes_;
  Bytes mapped_;  // without the guards
};

}  // namespace plimsoll::exec
