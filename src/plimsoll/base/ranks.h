#pragma once

// Ranks: processes that share one training, each with some of every step's samples.
//
// Kernels and sessions exchange bytes through this and know nothing of who carries them. Nothing is
// added on the way: sums are added up by those who exchange them, in one order on all ranks
// (graph/ranks.h).
//
// What is begun goes on beside what the caller does, within long calls of kernels too: a thread,
// the helper, looks after it now and then, where whoever carries the bytes may be asked by another
// thread. A lock lets one thread in at a time.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/threads/fork.h"

namespace plimsoll {

// What a rank has given away: messages that are not empty, and their bytes.
struct Sent {
  int64_t messages = 0;
  Bytes bytes;

  void count(size_t message) {
    messages += message > 0 ? 1 : 0;
    bytes += Bytes(static_cast<int64_t>(message));
  }
  Sent& operator+=(const Sent& other) {
    messages += other.messages;
    bytes += other.bytes;
    return *this;
  }
  friend Sent operator-(const Sent& now, const Sent& before) {
    return {now.messages - before.messages, now.bytes - before.bytes};
  }
};

// What goes to another rank, and what comes from it.
struct Swap {
  int peer = 0;
  std::span<const std::byte> out;
  std::span<std::byte> in;
};

// Swaps that follow from each other: what one brings, the next one sends on.
class Swaps {
 public:
  virtual ~Swaps() = default;
  // Takes what the one before has brought, and names the next one; none: that was the last. Called
  // by one thread at a time, and denormals are zero.
  virtual std::optional<Swap> next() noexcept = 0;
};

class Ranks {
 public:
  Ranks() = default;
  virtual ~Ranks() { stop_helper(); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // Who this is, from 0, and how many there are: a power of two.
  virtual int rank() const noexcept = 0;
  virtual int count() const noexcept = 0;

  // Sends `out` to that rank and fills `in` with what it sends here; both may be of any size, also
  // none, as long as the other rank's call says the same. Every rank makes its calls in one order.
  // After a failure it does nothing and `in` holds anything: who goes on asks check() first.
  void swap(int peer, std::span<const std::byte> out, std::span<std::byte> in) noexcept;

  // Begins swaps that go on beside what the caller does, and gives them a number. They and what
  // they name stay where they are until finish(number), or abandon(). One set is on its way at a
  // time: what was begun before is finished first.
  uint32_t begin(Swaps& swaps) noexcept;
  // Called now and then while something is on its way: whether it has come, and what is next.
  void go_on() noexcept;
  bool is_under_way() const noexcept { return under_way_.load(std::memory_order_acquire); }
  void finish(uint32_t number) noexcept;
  // After a failure of the caller's: nobody here touches what is on its way any more, and from here
  // on exchanges fail. What a library was to receive it may still fill, whenever anybody calls it
  // again.
  void abandon() noexcept;

  // Throws where an exchange has failed: which rank, and why.
  virtual void check() const = 0;

  // Since the first exchange: what was sent, and how long the caller has waited.
  virtual Sent sent() const noexcept = 0;
  double waited_seconds() const noexcept { return waited_seconds_; }

 protected:
  // One swap at a time. Whether it is done, or has failed; `wait`: says so when it is. `lock()` is
  // held in these three.
  virtual void begin_swap(const Swap& swap) noexcept = 0;
  virtual bool is_swapped(bool wait) noexcept = 0;
  virtual void fail_all() noexcept = 0;

  // An implementation's other functions hold it where they read what those three write, or call a
  // library.
  std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }

  // Whether there is a helper now: where the system gives no thread, the caller alone looks after
  // what is on its way. It ends before anything of an implementation goes.
  bool start_helper() noexcept;
  void stop_helper() noexcept;

 private:
  std::unique_lock<std::mutex> enter() noexcept;
  void help() noexcept;
  void advance() noexcept;
  void finish_all() noexcept;
  void begin_next() noexcept;
  void wait() noexcept;
  void set_open(Swaps* swaps) noexcept;

  mutable std::mutex mutex_;
  Swaps* open_ = nullptr;               // what is on its way
  std::atomic<bool> under_way_{false};  // whether anything is
  uint32_t begun_ = 0;                  // how many sets were
  double waited_seconds_ = 0;           // the caller's
  bool stops_ = false;
  Condition changed_;
  Threads helper_;
};

// Whether a flag is set on any rank; every rank asks at the same place.
bool any_rank(Ranks& ranks, bool flag);

// The largest number of any rank's; every rank asks at the same place.
int64_t most_on(Ranks& ranks, int64_t own);
bool equal_on(Ranks& ranks, int64_t own);

// This process's host, as it calls itself.
std::string host_name();

// How many ranks, this one included, have that number; every rank asks at the same place.
int count_alike(Ranks& ranks, uint64_t own);

// Fills `bytes` on every other rank with that one's; all ask for as many.
void share_from(Ranks& ranks, int from, std::span<std::byte> bytes);

// That rank's text on all, no more than 4 KiB of it.
std::string text_of(Ranks& ranks, int rank, const std::string& own);

// Throws kConfig where another rank's text differs; `what` names it, as "--seed". Every rank asks
// at the same place.
void expect_equal_on(Ranks& ranks, const std::string& what, const std::string& own);

}  // namespace plimsoll
