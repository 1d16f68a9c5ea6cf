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
  void swap(int peer, std::span<const std::byte> out, std::span<std::byte> in) noexcept override {
    if (failed_) return;
    sent_ += Bytes(std::ssize(out));
    meeting_.send(rank_, peer, out);
    failed_ = !meeting_.receive(peer, rank_, in);
  }
  void check() const override {
    if (failed_) throw Error(ErrorKind::kIo, "rank: nothing received that was expected");
  }
  Bytes sent() const { return sent_; }

 private:
  ThreadMeeting& meeting_;
  int rank_;
  int count_;
  bool failed_ = false;
  Bytes sent_;
};

}  // namespace plimsoll::toys
