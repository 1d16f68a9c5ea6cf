#pragma once

// What the steps of a run took: the last ones each, in a fixed ring, so that long runs keep no
// more; and how much of its epochs' time the process had of its processors, which is asked once an
// epoch, since asking takes as long as a kernel.

#include <algorithm>
#include <array>
#include <ctime>
#include <vector>

namespace plimsoll::train {

class StepSeconds {
 public:
  void begin_epoch() { had_ = processor_seconds(); }
  // `seconds`: since begin_epoch().
  void end_epoch(double seconds) {
    all_ += seconds;
    processors_ += processor_seconds() - had_;
  }
  void add_step(double seconds) { seconds_[count_++ % kKept] = seconds; }

  // The median of the last steps; 0: there were none.
  double median() const {
    const size_t kept = std::min(count_, kKept);
    if (kept == 0) return 0;
    std::vector<double> sorted(seconds_.begin(), seconds_.begin() + static_cast<ptrdiff_t>(kept));
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(kept / 2),
                     sorted.end());
    return sorted[kept / 2];
  }
  // A share of so many threads' time in all epochs; 0: there were none.
  double processor_share(int threads) const {
    return all_ > 0 ? processors_ / (all_ * threads) : 0;
  }

 private:
  static constexpr size_t kKept = 1024;

  static double processor_seconds() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  std::array<double, kKept> seconds_{};
  size_t count_ = 0;
  double all_ = 0;
  double processors_ = 0;
  double had_ = 0;
};

}  // namespace plimsoll::train
