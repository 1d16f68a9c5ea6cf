#include "backend/cpu/team.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <system_error>

#include "backend/cpu/threads.h"

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

constexpr uint64_t make_ticket(uint32_t generation, int parts) {
  return uint64_t{generation} << 32 | static_cast<uint64_t>(parts) << 16;
}
constexpr uint32_t generation_of(uint64_t ticket) { return static_cast<uint32_t>(ticket >> 32); }
constexpr uint32_t parts_of(uint64_t ticket) { return ticket >> 16 & 0xffff; }
constexpr uint32_t next_of(uint64_t ticket) { return ticket & 0xffff; }

// Signals are the host's business.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Team::~Team() {
  stops_ = true;
  ++generation_;
  generation_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::grow(size_t others) noexcept {
  if (threads_.size() >= others) return;
  const NoSignals masked;
  try {
    while (threads_.size() < others) threads_.emplace_back([this] { serve(); });
  } catch (const std::system_error&) {
    // The first member does what nobody else claims.
  }
}

void Team::serve() {
  const FlushDenormals flush;
  uint32_t seen = 0;
  while (true) {
    const uint64_t ticket = await_job(seen);
    if (stops_) return;
    seen = generation_of(ticket);
    work_on(ticket);
  }
}

uint64_t Team::await_job(uint32_t seen) {
  uint64_t ticket = 0;
  const auto published = [&] {
    ticket = ticket_.load(std::memory_order_acquire);
    return generation_of(ticket) != seen || stops_.load(std::memory_order_relaxed);
  };
  while (!look_for(published)) generation_.wait(seen);
  return ticket;
}

void Team::work_on(uint64_t ticket) noexcept {
  const uint32_t generation = generation_of(ticket);
  const uint32_t parts = parts_of(ticket);
  while (generation_of(ticket) == generation && next_of(ticket) < parts) {
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      continue;
    }
    // The job stays as it is until this part is done.
    function_(body_, static_cast<int>(next_of(ticket)));
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == parts) done_.notify_one();
    ticket = ticket_.load(std::memory_order_acquire);
  }
}

void Team::await_done(uint32_t parts) {
  const auto all_done = [&] { return done_.load(std::memory_order_acquire) == parts; };
  while (!look_for(all_done)) {
    const uint32_t now = done_.load(std::memory_order_acquire);
    if (now != parts) done_.wait(now);
  }
}

void Team::run(int parts, PartFunction function, const void* body) noexcept {
  grow(static_cast<size_t>(parts) - 1);
  function_ = function;
  body_ = body;
  done_.store(0, std::memory_order_relaxed);
  const uint32_t generation = generation_of(ticket_.load(std::memory_order_relaxed)) + 1;
  const uint64_t ticket = make_ticket(generation, parts);
  ticket_.store(ticket, std::memory_order_release);
  generation_.store(generation);
  generation_.notify_all();
  work_on(ticket);
  await_done(static_cast<uint32_t>(parts));
}

}  // namespace plimsoll::backend::cpu
