#include "watch/measure/sample.h"

#include <algorithm>

namespace plimsoll::watch {
namespace {

template <typename T>
std::optional<T> larger(const std::optional<T>& a, const std::optional<T>& b) {
  if (!a) return b;
  if (!b) return a;
  return std::max(*a, *b);
}

// `later` joins `sample`: its instant and totals are the later one's, its levels the highest.
Sample merged(const Sample& sample, const Sample& later) {
  Sample result = later;
  result.held = std::max(sample.held, later.held);
  result.held_low = std::min(sample.held_low, later.held_low);
  result.resident = std::max(sample.resident, later.resident);
  result.anonymous = std::max(sample.anonymous, later.anonymous);
  result.shared = std::max(sample.shared, later.shared);
  result.swapped = std::max(sample.swapped, later.swapped);
  result.proportional = larger(sample.proportional, later.proportional);
  result.group_usage = larger(sample.group_usage, later.group_usage);
  result.group_cache = larger(sample.group_cache, later.group_cache);
  result.processes = std::max(sample.processes, later.processes);
  result.threads = std::max(sample.threads, later.threads);
  result.open_files = larger(sample.open_files, later.open_files);
  result.shm_used = larger(sample.shm_used, later.shm_used);
  result.waiting = std::max(sample.waiting, later.waiting);
  result.gpu_bytes = larger(sample.gpu_bytes, later.gpu_bytes);
  result.gpu_busy = larger(sample.gpu_busy, later.gpu_busy);
  result.gpu_celsius = larger(sample.gpu_celsius, later.gpu_celsius);
  result.gpu_watts = larger(sample.gpu_watts, later.gpu_watts);
  result.gpu_throttled = sample.gpu_throttled || later.gpu_throttled;
  return result;
}

}  // namespace

void Curve::add(const Sample& sample) {
  if (!samples_.empty() && in_last_ < stride_) {
    samples_.back() = merged(samples_.back(), sample);
    ++in_last_;
    return;
  }
  if (samples_.size() == kMostSamples) halve();
  if (samples_.capacity() == 0) samples_.reserve(kMostSamples);
  samples_.push_back(sample);
  in_last_ = 1;
}

void Curve::halve() {
  for (size_t i = 0; 2 * i + 1 < samples_.size(); ++i) {
    samples_[i] = merged(samples_[2 * i], samples_[2 * i + 1]);
  }
  samples_.resize(samples_.size() / 2);
  stride_ *= 2;
}

}  // namespace plimsoll::watch
