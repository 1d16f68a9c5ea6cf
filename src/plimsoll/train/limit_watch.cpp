#include "train/limit_watch.h"

#include <atomic>
#include <utility>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/process_memory.h"

namespace plimsoll::train {
namespace {

constexpr double kReadEverySeconds = 1;
// For the pages of the plan before to be gone, and the average to fall.
constexpr double kPressureEverySeconds = 30;
// The share of the last ten seconds: what page cache that is taken back costs stays far below.
constexpr double kStalledPercent = 10;
// Less than this share of what the run takes, and of what was told before, is worth a new plan.
constexpr double kWorthPlanning = 0.95;
constexpr int kNoSignal = -1;
constexpr int kReadGroup = 0;

// MiB, or one of the above. Lock-free, so that the handler may write it.
std::atomic<int> asked{kNoSignal};

void take_signal(int, siginfo_t* info, void*) {
  const bool has_value = info->si_code == SI_QUEUE && info->si_value.sival_int > 0;
  asked.store(has_value ? info->si_value.sival_int : kReadGroup, std::memory_order_relaxed);
}

Bytes part_of(Bytes whole, int sharers) { return Bytes(whole.count() / sharers); }

LimitWatch::Reading read_system(int sharers) {
  const CgroupMemory group = read_cgroup_memory();
  LimitWatch::Reading reading;
  reading.limit = group.limit;
  if (group.high && (!group.limit || *group.high < *group.limit)) reading.limit = group.high;
  if (reading.limit) reading.limit = part_of(*reading.limit, sharers);
  if (read_memory_pressure().value_or(0) >= kStalledPercent) {
    // What is predicted counts pages of files, page tables and kernel stacks too.
    const ProcessMemory process = read_process_memory();
    const Bytes held = process.anonymous + process.shared;
    const Bytes left = memory_safe_for_process() - held;
    reading.safe = held + part_of(max(left, Bytes()), sharers) + process.file +
                   process.page_tables + process.kernel_stacks;
  }
  return reading;
}

}  // namespace

LimitWatch::LimitWatch(bool with_signal, int sharers)
    : LimitWatch([clock = SteadyClock()] { return clock.seconds(); },
                 [sharers] { return read_system(sharers); }, with_signal) {}

LimitWatch::LimitWatch(Clock clock, Reader reader, bool with_signal)
    : clock_(std::move(clock)),
      reader_(std::move(reader)),
      takes_signal_(with_signal),
      next_(clock_() + kReadEverySeconds) {
  if (!takes_signal_) return;
  asked.store(kNoSignal);
  struct sigaction action = {};
  action.sa_sigaction = take_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(SIGUSR1, &action, &before_);
}

LimitWatch::~LimitWatch() {
  if (takes_signal_) ::sigaction(SIGUSR1, &before_, nullptr);
}

void LimitWatch::rest() { next_pressure_ = clock_() + kPressureEverySeconds; }

std::optional<Bytes> LimitWatch::poll(Bytes predicted) {
  const int signal =
      takes_signal_ ? asked.exchange(kNoSignal, std::memory_order_relaxed) : kNoSignal;
  if (signal > 0) return 1_MiB * signal;
  if (signal == kReadGroup) return told_ = reader_().limit;
  const double now = clock_();
  if (now < next_) return std::nullopt;
  next_ = now + kReadEverySeconds;
  const Reading reading = reader_();
  // The kernel keeps whole pages of a limit: a run that was planned for it to the byte stays.
  const auto is_less = [&](std::optional<Bytes> limit) {
    return limit && *limit + page_size() <= predicted;
  };
  if (is_less(reading.limit) && reading.limit != told_) return told_ = reading.limit;
  const Bytes worth_it(static_cast<int64_t>(
      kWorthPlanning *
      static_cast<double>(min(predicted, told_safe_.value_or(predicted)).count())));
  if (!reading.safe || *reading.safe > worth_it || now < next_pressure_) return std::nullopt;
  next_pressure_ = now + kPressureEverySeconds;
  return told_safe_ = reading.safe;
}

}  // namespace plimsoll::train
