#pragma once

// What a run looks like at one instant, and the curve of instants over the whole run.
//
// Sizes in bytes, times in seconds since the command was started. `held` is what the kernel cannot
// take back: anonymous pages, shared memory, page tables; it is the figure that growth and limits
// are judged by. With a group of its own it is the group's account (shared pages once); without,
// the sum over processes, scaled by the latest proportional reading. Page cache is never in it.
//
// A Curve is bounded: when it is full, neighbours are merged; `held_low` and `held` keep the lowest
// and the highest of what was merged, so no peak is lost.

#include <cstdint>
#include <optional>
#include <vector>

namespace plimsoll::watch {

struct Sample {
  double seconds = 0;
  int64_t held = 0;      // highest of the merged instants
  int64_t held_low = 0;  // lowest of them
  int64_t resident = 0;  // sum over processes, shared pages counted in each
  int64_t anonymous = 0;
  int64_t shared = 0;
  int64_t swapped = 0;
  std::optional<int64_t> proportional;  // sum over processes, read rarely
  std::optional<int64_t> group_usage;   // page cache included
  std::optional<int64_t> group_cache;   // what of it the kernel can take back
  int64_t processes = 0;
  int64_t threads = 0;
  std::optional<int64_t> open_files;  // of the process that has most
  std::optional<int64_t> shm_used;    // of the machine's /dev/shm
  // Totals since the start.
  double cpu_seconds = 0;
  double worker_cpu_seconds = 0;  // of that, in other processes than the largest in memory
  int64_t major_faults = 0;
  int64_t minor_faults = 0;
  int64_t read_bytes = 0;
  int64_t written_bytes = 0;
  int64_t taken_bytes = 0;
  std::optional<int64_t> network_bytes;   // of the machine, or its network namespace
  std::optional<double> memory_pressure;  // seconds in which some task waited for memory
  std::optional<double> io_pressure;      // … for a device
  int64_t waiting = 0;                    // processes that wait for a device now
  // GPU, where there is one.
  std::optional<int64_t> gpu_bytes;
  std::optional<double> gpu_busy;  // 0 to 1, busiest device
  std::optional<double> gpu_celsius;
  std::optional<double> gpu_watts;
  bool gpu_throttled = false;
  // Progress that the output had shown by then.
  int64_t steps = 0;
  int64_t epochs = 0;
  int64_t fits = 0;
  bool operator==(const Sample&) const = default;
};

class Curve {
 public:
  static constexpr size_t kMostSamples = 2048;

  void add(const Sample& sample);
  const std::vector<Sample>& samples() const { return samples_; }

 private:
  void halve();

  std::vector<Sample> samples_;
  int64_t stride_ = 1;  // instants that one sample stands for
  int64_t in_last_ = 0;
};

}  // namespace plimsoll::watch
