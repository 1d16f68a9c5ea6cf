#include "backend/cpu/threads/team.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <exception>

#include "backend/cpu/threads/threads.h"
#include "base/threads/denormals.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace plimsoll::backend::cpu {
namespace {

// How long a thread looks for work before it sleeps: a few times what waking it costs.
constexpr std::chrono::microseconds kPatience{50};
constexpr int kLooksPerClock = 64;

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether `ready` came true before patience ended.
template <typename Ready>
bool look_for(const Ready& ready) {
  if (ready()) return true;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {
    for (int i = 0; i < kLooksPerClock; ++i) {
      pause_briefly();
      if (ready()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

Team::~Team() {
  stops_ = true;
  ++generation_;
  generation_.notify_all();
  threads_.join();
}

void Team::grow(size_t others) noexcept {
  if (threads_.size() >= others) return;
  try {
    while (threads_.size() < others) {
      const int member = static_cast<int>(threads_.size()) + 1;
      threads_.start([this, member] { serve(member); });
    }
  } catch (const std::exception&) {
    // The first member does what nobody else claims.
  }
}

void Team::serve(int member) {
  const FlushDenormals flush;
  uint32_t seen = 0;
  while (true) {
    seen = await_job(seen);
    if (stops_) return;
    // A job of fewer parts is for those who have its parts at hand.
    if (member < members_.load(std::memory_order_relaxed)) work_on(member);
  }
}

uint32_t Team::await_job(uint32_t seen) {
  uint32_t now = seen;
  const auto published = [&] {
    now = generation_.load(std::memory_order_acquire);
    return now != seen;
  };
  while (!look_for(published)) generation_.wait(seen);
  return now;
}

int Team::claim(int member) noexcept {
  const int words = (parts_.load(std::memory_order_relaxed) + kWordParts - 1) / kWordParts;
  for (int i = 0; i < words; ++i) {
    const int w = (member / kWordParts + i) % words;
    std::atomic<uint64_t>& word = open_[static_cast<size_t>(w)];
    uint64_t value = word.load(std::memory_order_acquire);
    // The job whose parts these are may be a later one than the member came for, of fewer members.
    while (static_cast<uint32_t>(value) != 0 && member < members_.load(std::memory_order_relaxed)) {
      const auto open = static_cast<uint32_t>(value);
      const uint32_t own = uint32_t{1} << (member % kWordParts);
      const uint32_t bit = i == 0 && (open & own) != 0 ? own : open & (~open + 1);
      if (word.compare_exchange_weak(value, value & ~uint64_t{bit}, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
        return w * kWordParts + std::countr_zero(bit);
      }
    }
  }
  return -1;
}

void Team::work_on(int member) noexcept {
  for (int part = claim(member); part >= 0; part = claim(member)) {
    // The job stays as it is until this part is done. It may be a later one than the member came
    // for: an open bit is always one of the job that stands there.
    function_(body_, first_part_ + part);
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
  }
}

void Team::await_done() {
  const auto all_done = [&] { return left_.load(std::memory_order_acquire) == 0; };
  while (!look_for(all_done)) {
    const int now = left_.load(std::memory_order_acquire);
    if (now != 0) left_.wait(now);
  }
}

void Team::run(int parts, int threads, PartFunction function, const void* body) noexcept {
  constexpr int kMostAtOnce = kWords * kWordParts;
  const int members = std::min({parts, threads, kMostAtOnce});
  grow(static_cast<size_t>(members) - 1);
  for (int first = 0; first < parts; first += kMostAtOnce) {
    const int now = std::min(parts - first, kMostAtOnce);
    function_ = function;
    body_ = body;
    first_part_ = first;
    left_.store(now, std::memory_order_relaxed);
    parts_.store(now, std::memory_order_relaxed);
    members_.store(std::min(members, now), std::memory_order_relaxed);
    const uint64_t job = uint64_t{generation_.load(std::memory_order_relaxed) + 1} << kWordParts;
    for (int w = 0; w * kWordParts < now; ++w) {
      const int bits = std::min(now - w * kWordParts, kWordParts);
      const uint64_t open = (uint64_t{1} << bits) - 1;
      open_[static_cast<size_t>(w)].store(job | open, std::memory_order_release);
    }
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    work_on(0);
    await_done();
  }
}

}  // namespace plimsoll::backend::cpu
