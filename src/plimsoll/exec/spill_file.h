#pragma once

// The file that values are moved to and from, by one thread of its own.
//
// A transfer copies a region between the arena and the file. begin() hands it to the thread,
// wait() returns when it is done; nothing is allocated in between. Errors are kept and thrown by
// wait(). The file has no name and its space is taken at construction.
//
// The page cache is passed by, so that what is moved out of memory does not come back as cache:
// whole pages go through one aligned buffer, pages at the edges of a region are read, changed and
// written. Where the file system does not do that, pages go through the cache and are dropped from
// it.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"

namespace plimsoll::exec {

// A region of one instance in memory and of its copy in the file.
struct SpillRegion {
  bool to_file = true;
  std::byte* memory = nullptr;          // first byte of the region
  int64_t offset = 0;                   // the same in the file
  int64_t unit = 0;                     // bytes of the innermost element
  std::vector<int64_t> rows;            // extents of the region
  std::vector<int64_t> memory_strides;  // in bytes
  std::vector<int64_t> file_strides;
};

// Bytes outside of the arena that a spill file takes: its buffer, and its thread's stacks.
inline constexpr Bytes kSpillBuffer = 1_MiB;
inline constexpr Bytes kSpillOverhead = kSpillBuffer + 128_KiB;

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
  // `transfers`: how many numbers there are. Throws kIo where the space is not there.
  SpillFile(const std::string& folder, Bytes bytes, size_t transfers);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // Sets what stays the same over all turns of a transfer.
  void set_layout(size_t transfer, SpillRegion region);
  // The region of a transfer: rows, memory and offset are set before each begin.
  SpillRegion& region(size_t transfer) { return slots_[transfer].region; }
  void begin(size_t transfer);
  // Throws what the transfer threw.
  void wait(size_t transfer);
  // Waits for all that are under way and forgets their errors.
  void abandon() noexcept;
  // Between runs, with no transfer under way, by the caller's own thread. Throw kIo.
  void read(int64_t offset, std::span<std::byte> destination);
  void write(int64_t offset, std::span<const std::byte> source);
  Bytes overhead() const;

 private:
  enum class Phase : uint8_t { kIdle, kQueued, kDone };
  struct Slot {
    SpillRegion region;
    std::vector<int64_t> at;  // position while copying
    Phase phase = Phase::kIdle;
    std::exception_ptr error;
  };

  void serve();
  void copy(Slot& slot);
  void move(bool to_file, std::byte* memory, int64_t offset, size_t bytes);
  bool move_directly(bool to_file, std::byte* memory, int64_t offset, size_t bytes);
  bool move_pages(bool to_file, std::byte* buffer, int64_t offset, size_t bytes);

  File file_;
  PageBuffer buffer_;
  File direct_;  // the same past the page cache; closed: not to be had
  std::vector<Slot> slots_;
  std::vector<size_t> queue_;  // a ring of transfer numbers
  size_t head_ = 0;
  size_t queued_ = 0;
  bool stop_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace plimsoll::exec
