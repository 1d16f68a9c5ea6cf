#pragma once

// What a run spends its time on, as far as it shows from outside: computing, reading data, decoding
// them, the GPU, or swapping. Concluded from rates over the part of the run in which it made
// progress. A first answer with its evidence, not a profile: inside one process computing and
// decoding look alike, and then it is said to be computing.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "watch/measure/sample.h"

namespace plimsoll::watch {

enum class BoundBy { kUnknown, kCompute, kReading, kDecoding, kGpu, kSwapping, kWaiting };
std::string_view to_string(BoundBy bound);

struct Bound {
  BoundBy by = BoundBy::kUnknown;
  double confidence = 0;
  std::vector<std::string> evidence;
  double cpus_used = 0;  // on average
  double read_bytes_per_second = 0;
  double major_faults_per_second = 0;
  bool operator==(const Bound&) const = default;
};

// `cpus`: processors that the command may use.
Bound find_bound(std::span<const Sample> samples, double cpus);

}  // namespace plimsoll::watch
