#pragma once

// Ranks that are threads of one process.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/ranks.h"

namespace plimsoll::toys {

// Where they meet.
class ThreadMeeting {
 public:
  void send(int from, int to, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    boxes_[{from, to}].emplace_back(bytes.begin(), bytes.end());
    arrived_.notify_all();
  }

  bool has_come(int from, int to) {
    const std::lock_guard lock(mutex_);
    return !boxes_[{from, to}].empty();
  }

  // False where the other one says something else, or nothing for a minute.
  bool receive(int from, int to, std::span<std::byte> bytes) {
    std::unique_lock lock(mutex_);
    auto& box = boxes_[{from, to}];
    if (!arrived_.wait_for(lock, std::chrono::minutes(1), [&] { return !box.empty(); })) {
      return false;
    }
    const std::vector<std::byte> message = std::move(box.front());
    box.pop_front();
    if (message.size() != bytes.size()) return false;
    if (!message.empty()) std::memcpy(bytes.data(), message.data(), message.size());
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> boxes_;
};

class ThreadRanks final : public Ranks {
 public:
  ThreadRanks(ThreadMeeting& meeting, int rank, int count)
      : meeting_(meeting), rank_(rank), count_(count) {}

  int rank() const noexcept override { return rank_; }
  int count() const noexcept override { return count_; }
  ~ThreadRanks() override { stop_helper(); }
  ThreadRanks(const ThreadRanks&) = delete;
  ThreadRanks& operator=(const ThreadRanks&) = delete;
  void check() const override {
    const auto held = lock();
    if (failed_) throw Error(ErrorKind::kIo, "rank: nothing received that was expected");
  }
  Sent sent() const noexcept override {
    const auto held = lock();
    return sent_;
  }
  // What is begun goes on in a thread of its own.
  using Ranks::start_helper;

 private:
  void fail_all() noexcept override { failed_ = true; }
  void begin_swap(const Swap& swap) noexcept override {
    swap_ = swap;
    if (failed_) return;
    sent_.count(swap.out.size());
    meeting_.send(rank_, swap.peer, swap.out);
  }
  bool is_swapped(bool wait) noexcept override {
    if (failed_) return true;
    if (!wait && !meeting_.has_come(swap_.peer, rank_)) return false;
    failed_ = !meeting_.receive(swap_.peer, rank_, swap_.in);
    return true;
  }

  ThreadMeeting& meeting_;
  int rank_;
  int count_;
  bool failed_ = false;
  Swap swap_;
  Sent sent_;
};

}  // namespace plimsoll::toys
