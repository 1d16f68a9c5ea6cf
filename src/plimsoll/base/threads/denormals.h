#pragma once

// Whether denormal numbers count as zero in this thread.
//
// They do in every thread that computes for a step, in inputs and in results, whatever the host
// program has set: no result depends on who computed it. The mode of before comes back at the end
// of the scope.

#include <cstdint>

namespace plimsoll {

// Denormals as zeros, in and out, in this thread for the life of the object.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  uint64_t before_;
};

// The opposite: denormals are numbers, whatever the host program has set.
class KeepDenormals {
 public:
  KeepDenormals();
  ~KeepDenormals();
  KeepDenormals(const KeepDenormals&) = delete;
  KeepDenormals& operator=(const KeepDenormals&) = delete;

 private:
  uint64_t before_;
};

}  // namespace plimsoll
