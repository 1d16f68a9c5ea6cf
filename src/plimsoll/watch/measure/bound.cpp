#include "watch/measure/bound.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/bytes.h"
#include "base/format.h"

namespace plimsoll::watch {
namespace {

constexpr double kShortest = 1.0;  // seconds that can be judged

std::string percent(double part) { return fmt::format("{:.0f} %", 100 * part); }

struct Rates {
  double seconds = 0;
  double cpus = 0;
  double workers = 0;  // part of the CPU time
  double read = 0;
  double faults = 0;
  double memory_pressure = 0;  // part of the time
  double io_pressure = 0;
  double waiting = 0;  // part of the instants
  int64_t swapped = 0;
  std::optional<double> gpu;
};

double part_of(const std::optional<double>& from, const std::optional<double>& to, double seconds) {
  return from && to ? std::max(0.0, (*to - *from) / seconds) : 0;
}

Rates rates_of(std::span<const Sample> samples) {
  Rates rates;
  const Sample& first = samples.front();
  const Sample& last = samples.back();
  rates.seconds = last.seconds - first.seconds;
  const double cpu = last.cpu_seconds - first.cpu_seconds;
  rates.cpus = cpu / rates.seconds;
  rates.workers = cpu > 0 ? (last.worker_cpu_seconds - first.worker_cpu_seconds) / cpu : 0;
  rates.read = static_cast<double>(last.read_bytes - first.read_bytes) / rates.seconds;
  rates.faults = static_cast<double>(last.major_faults - first.major_faults) / rates.seconds;
  rates.memory_pressure = part_of(first.memory_pressure, last.memory_pressure, rates.seconds);
  rates.io_pressure = part_of(first.io_pressure, last.io_pressure, rates.seconds);
  double busy = 0;
  int64_t busy_count = 0;
  int64_t waiting = 0;
  for (const Sample& sample : samples) {
    waiting += sample.waiting > 0 ? 1 : 0;
    rates.swapped = std::max(rates.swapped, sample.swapped);
    if (!sample.gpu_busy) continue;
    busy += *sample.gpu_busy;
    ++busy_count;
  }
  rates.waiting = static_cast<double>(waiting) / static_cast<double>(samples.size());
  if (busy_count > 0) rates.gpu = busy / static_cast<double>(busy_count);
  return rates;
}

// Whether what is printed would speak of reading: figures that do not round to nothing. Pressure
// alone may be that of a neighbour.
bool reads(const Rates& rates) { return rates.waiting >= 0.005 && rates.read >= 1; }

Bound judge(const Rates& rates, double cpus) {
  Bound bound;
  const auto say = [&](BoundBy by, double confidence, std::vector<std::string> evidence) {
    bound.by = by;
    bound.confidence = confidence;
    bound.evidence = std::move(evidence);
  };
  const std::string cpu_text = fmt::format("{:.1f} of {:.1f} processors busy", rates.cpus, cpus);
  const double busy = rates.cpus / std::max(cpus, 0.01);
  if ((rates.swapped > 0 && rates.faults > 50) || rates.faults > 500) {
    say(BoundBy::kSwapping, 0.8,
        {fmt::format("{:.0f} pages a second were read back from a device", rates.faults),
         fmt::format("up to {} swapped out", to_string(Bytes(rates.swapped)))});
  } else if (rates.gpu && *rates.gpu > 0.7) {
    say(BoundBy::kGpu, 0.8, {"GPU busy " + percent(*rates.gpu) + " of the time"});
  } else if (reads(rates) && (rates.waiting > 0.3 || (rates.io_pressure > 0.2 && busy < 0.5))) {
    say(BoundBy::kReading, rates.waiting > 0.5 ? 0.8 : 0.6,
        {"a process waited for a device in " + percent(rates.waiting) + " of the instants",
         fmt::format("{} a second read from devices", to_string(Bytes(std::llround(rates.read)))),
         cpu_text});
  } else if (rates.workers > 0.6 && busy > 0.5) {
    say(BoundBy::kDecoding, 0.6,
        {percent(rates.workers) + " of the processor time went to worker processes", cpu_text});
  } else if (busy > 0.6) {
    say(BoundBy::kCompute, busy > 0.8 ? 0.8 : 0.6, {cpu_text});
  } else if (busy < 0.15 && (!rates.gpu || *rates.gpu < 0.15)) {
    // For what else: a device that is written to, a network, another program, a timer.
    say(BoundBy::kWaiting, 0.6,
        {cpu_text, rates.waiting > 0.3
                       ? "a process waited for a device in " + percent(rates.waiting) +
                             " of the instants, but none was read from"
                       : "neither a device nor a GPU was busy"});
  } else {
    say(BoundBy::kUnknown, 0, {cpu_text});
  }
  if (rates.gpu && bound.by != BoundBy::kGpu) {
    bound.evidence.push_back("GPU busy " + percent(*rates.gpu) + " of the time");
  }
  return bound;
}

}  // namespace

std::string_view to_string(BoundBy bound) {
  switch (bound) {
    case BoundBy::kUnknown:
      return "unknown";
    case BoundBy::kCompute:
      return "compute";
    case BoundBy::kReading:
      return "data_reading";
    case BoundBy::kDecoding:
      return "decoding";
    case BoundBy::kGpu:
      return "gpu";
    case BoundBy::kSwapping:
      return "swapping";
    case BoundBy::kWaiting:
      return "waiting";
  }
  return "unknown";
}

Bound find_bound(std::span<const Sample> samples, double cpus) {
  // Where steps were seen, the time before the first does not count.
  size_t begin = 0;
  while (begin < samples.size() && samples[begin].steps == 0 && samples[begin].epochs == 0) ++begin;
  if (begin + 2 > samples.size()) begin = 0;
  samples = samples.subspan(begin);
  if (samples.size() < 2 || samples.back().seconds - samples.front().seconds < kShortest) return {};
  const Rates rates = rates_of(samples);
  Bound bound = judge(rates, cpus);
  bound.cpus_used = rates.cpus;
  bound.read_bytes_per_second = rates.read;
  bound.major_faults_per_second = rates.faults;
  return bound;
}

}  // namespace plimsoll::watch
