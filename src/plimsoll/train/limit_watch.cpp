#include "train/limit_watch.h"

#include <atomic>
#include <utility>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/process_memory.h"

namespace plimsoll::train {
namespace {

constexpr double kReadEverySeconds = 1;
constexpr int kNoSignal = -1;
constexpr int kReadGroup = 0;

// MiB, or one of the above. Lock-free, so that the handler may write it.
std::atomic<int> asked{kNoSignal};

void take_signal(int, siginfo_t* info, void*) {
  const bool has_value = info->si_code == SI_QUEUE && info->si_value.sival_int > 0;
  asked.store(has_value ? info->si_value.sival_int : kReadGroup, std::memory_order_relaxed);
}

}  // namespace

LimitWatch::LimitWatch()
    : LimitWatch([clock = SteadyClock()] { return clock.seconds(); },
                 [] { return read_cgroup_memory().limit; }) {}

LimitWatch::LimitWatch(Clock clock, GroupLimit group)
    : clock_(std::move(clock)), group_(std::move(group)), next_(clock_() + kReadEverySeconds) {
  asked.store(kNoSignal);
  struct sigaction action = {};
  action.sa_sigaction = take_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(SIGUSR1, &action, &before_);
}

LimitWatch::~LimitWatch() { ::sigaction(SIGUSR1, &before_, nullptr); }

std::optional<Bytes> LimitWatch::poll(Bytes predicted) {
  const int signal = asked.exchange(kNoSignal, std::memory_order_relaxed);
  if (signal > 0) return 1_MiB * signal;
  if (signal == kReadGroup) return told_ = group_();
  const double now = clock_();
  if (now < next_) return std::nullopt;
  next_ = now + kReadEverySeconds;
  const std::optional<Bytes> limit = group_();
  // The kernel keeps whole pages of a limit: a run that was planned for it to the byte stays.
  if (!limit || *limit + page_size() > predicted || limit == told_) return std::nullopt;
  return told_ = limit;
}

}  // namespace plimsoll::train
