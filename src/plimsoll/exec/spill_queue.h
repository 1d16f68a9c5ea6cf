#pragma once

// Transfers to and from the spill file, by two threads that run ahead of and after the steps.
//
// The caller announces transfers in the order in which it will begin them, before it does; reading
// starts then, into a buffer of this class, and goes into the caller's memory once the transfer has
// begun. What is stored is copied from the caller's memory into another buffer and written from
// there, so that a store's wait is over before the disk is.
//
//   announce ──▶ reader: file ─▶ pages ┄┄ begun? ┄▶ memory ──▶ wait
//   announce ─▶ begin ─▶ memory ─▶ pages ──▶ wait        writer: pages ─▶ file
//
// What is seen is as if each transfer were done at once, in the order of the announcements: nothing
// is read that an announced store in front of it still has to write. In return, from a load's
// announcement on its bytes of the file come from stores that were announced before it.
//
// Whoever waits helps with the copying. Nothing is allocated after construction. Errors are kept
// and thrown by the waits that follow, and by finish(). One caller thread.

#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/threads/fork.h"
#include "exec/spill_file.h"
#include "exec/spill_region.h"

namespace plimsoll::exec {

// The least buffer that a spill file has, half for reading and half for writing, the largest that
// is of use, and bytes that it takes besides: stacks of its threads and their tables.
inline constexpr Bytes kSpillBuffer = 1_MiB;
inline constexpr Bytes kMostSpillBuffer = 16_MiB;
inline constexpr Bytes kSpillThreads = 192_KiB;

// Pieces on their way, in order, in a ring of pages.
class PieceRing {
 public:
  enum class State : uint8_t { kBusy, kReady, kDone };
  struct Slot {
    SpillPiece piece;
    size_t transfer = 0;
    std::byte* pages = nullptr;
    int64_t end = 0;  // of its pages, counted from the ring's first ever
    State state = State::kDone;
  };

  // All of it is touched at once.
  PieceRing(Bytes bytes, int64_t page);

  std::byte* data() const { return pages_.data(); }
  int64_t bytes() const { return static_cast<int64_t>(pages_.size()); }
  // The largest piece: two of them fit.
  int64_t most() const { return most_; }
  // Busy; null: no room.
  Slot* add(const SpillPiece& piece, size_t transfer);
  // Slots [first, next), oldest first.
  int64_t first() const { return first_; }
  int64_t next() const { return next_; }
  Slot& at(int64_t slot) { return slots_[static_cast<size_t>(slot) % slots_.size()]; }
  // Room of what is done at the front is free again.
  void release();
  void clear();
  size_t overhead() const { return pages_.size() + slots_.size() * sizeof(Slot); }

 private:
  PageBuffer pages_;
  int64_t page_;
  int64_t most_;
  std::vector<Slot> slots_;
  int64_t first_ = 0;
  int64_t next_ = 0;
  int64_t tail_ = 0;  // in bytes
  int64_t head_ = 0;
};

class SpillQueue {
 public:
  // `rank`: the most dimensions of a region. `open`: the most transfers that have begun and were
  // not waited for. `buffer` is at least kSpillBuffer. Throws kIo.
  struct Shape {
    Bytes bytes;
    Bytes buffer;
    size_t rank = 0;
    size_t open = 1;
  };
  SpillQueue(const std::string& folder, const Shape& shape);
  ~SpillQueue();
  SpillQueue(const SpillQueue&) = delete;
  SpillQueue& operator=(const SpillQueue&) = delete;

  // At once.
  size_t most_announced() const { return transfers_.size(); }
  // Whether one more may be announced without waiting.
  bool has_room();
  // To be filled in and announced. Waits for room; there will be some where all that were announced
  // have begun.
  SpillRegion& next_region();
  // Returns what the transfer is called until it was waited for.
  size_t announce();
  // In the order of the announcements. The memory is the transfer's until it was waited for.
  void begin(size_t transfer);
  void wait(size_t transfer);
  // Waits until all is written and throws what went wrong; all that was announced was waited for.
  void finish();
  // Gives up what was announced, when what is under way has ended, and forgets errors.
  void abandon() noexcept;

  // Between runs, with nothing announced. Throw kIo.
  void read(int64_t offset, std::span<std::byte> destination);
  void write(int64_t offset, std::span<const std::byte> source);

  // What all transfers so far have moved.
  struct Moved {
    int64_t read = 0;
    int64_t written = 0;
  };
  Moved bytes_moved();
  Bytes overhead() const;

 private:
  struct Transfer {
    SpillRegion region;
    RegionWalk walk;
    int64_t file_end = 0;
    int64_t open = 0;      // pieces that are not done
    int64_t filling = 0;   // of a store: pieces that are being copied from memory
    bool reading = false;  // has begun to be read
    bool begun = false;
    bool awaited = false;  // by the caller, now
    bool over = false;     // was waited for
  };
  using Lock = std::unique_lock<std::mutex>;

  static bool is_through(const Transfer& transfer);
  bool is_blocked(size_t position) const;
  void retire();
  void serve_reads();
  void serve_writes();
  // One piece each; false: there is none that could be.
  bool read_one(Lock& lock);
  bool empty_one(Lock& lock, const Transfer* only);
  bool fill_one(Lock& lock);
  bool write_one(Lock& lock);
  template <typename Work>
  bool work(Lock& lock, const Work& work);

  SpillFile file_;
  PieceRing reads_;
  PieceRing writes_;
  std::vector<Transfer> transfers_;
  std::vector<size_t> live_;  // of them, in the order of their announcements
  std::vector<size_t> free_;
  size_t filled_ = 0;  // the one that is being filled in
  int64_t busy_ = 0;   // pieces that someone works on without the lock
  Moved moved_;
  bool stop_ = false;
  std::exception_ptr error_;
  std::mutex mutex_;
  Condition changed_;
  Threads threads_;
};

}  // namespace plimsoll::exec
