#pragma once

// Ranges of a file that will be read soon, read by threads of their own past the page cache.
//
// Advice to the kernel (File::prefetch) reads ahead too, but takes and gives back a page of its
// cache for every 4 KiB, on the thread that asks: with a file that never stays there, that costs
// more than the reading. Here the device writes into buffers that the plan has counted.
//
//   ask(ranges in the order of their use)      a few at a time: what is used now, and what is next
//   take(begin, end) -> Lease                  the front of a range, for as long as the lease lives
//
// A range that was asked for is taken once. What nobody took makes room for what is asked later.
// Nothing here is an error: what cannot be read ahead is not there to take, and the reader reads it
// by itself, and meets the error.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/threads/fork.h"

namespace plimsoll::data {

class ReadAhead {
 public:
  // Buffers for ranges of the same size: so many of them, and the most that one read brings.
  struct Shape {
    int64_t slots = 0;
    int64_t piece_bytes = 0;
    int64_t slot_bytes() const;
    Bytes bytes() const { return Bytes(slots * slot_bytes()); }
  };
  // For `ranges` ranges that are read now, and as many that are read next; within `most` bytes, in
  // smaller pieces where that leaves few of the usual ones.
  static Shape shape_for(int64_t ranges, int64_t range_bytes, Bytes most);

  // Whether the file can be read past the page cache.
  static bool works_with(const File& file);

  // `file` outlives this.
  ReadAhead(const File& file, const Shape& shape);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Bytes [begin, end) of the file, to be used after all that was asked for before. Allocates
  // nothing.
  void ask(int64_t begin, int64_t end);

  class Lease {
   public:
    Lease() = default;
    Lease(ReadAhead& owner, int64_t number, std::span<const std::byte> bytes)
        : owner_(&owner), number_(number), bytes_(bytes) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() {
      if (owner_ != nullptr) owner_->give_back(number_, used_);
    }
    std::span<const std::byte> bytes() const { return bytes_; }
    // So many bytes from the front will not be taken again.
    void use(int64_t bytes) { used_ = bytes; }

   private:
    ReadAhead* owner_ = nullptr;
    int64_t number_ = 0;
    int64_t used_ = 0;
    std::span<const std::byte> bytes_;
  };

  // What there is of [begin, end) from its front on; waits for a read that is under way or about
  // to be. Empty: read it yourself. Any thread may call it.
  Lease take(int64_t begin, int64_t end);

 private:
  enum class State : uint8_t { kAsked, kReading, kReady, kFailed };
  struct Request {
    int64_t number = 0;
    int64_t begin = 0;
    int64_t end = 0;
    int64_t left = 0;  // bytes that nobody took
    int slot = -1;
    int leases = 0;
    State state = State::kAsked;
  };

  void add(int64_t begin, int64_t end);
  void forget_old();
  Request* find(int64_t number);
  Request* containing(int64_t offset);
  void erase(const Request& request);
  void give_back(int64_t number, int64_t bytes);
  void work();
  bool fill(int slot, int64_t begin, int64_t end) const;
  std::byte* buffer(int slot) const { return buffers_.get() + slot * shape_.slot_bytes(); }

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  Shape shape_;
  File direct_;
  std::unique_ptr<std::byte[], Free> buffers_;
  std::mutex mutex_;
  Condition changed_;
  std::vector<Request> requests_;  // in the order of their use
  std::vector<int> free_;
  int64_t numbers_ = 0;
  bool stop_ = false;
  Threads threads_;
};

}  // namespace plimsoll::data
