#pragma once

// Flush-to-zero and the number of threads, alike in every thread that runs kernels.
//
// Denormal numbers are flushed in inputs and results, so that no result depends on which thread of
// the pool computed it. The calling thread's own mode and thread count come back at the end of the
// scope; the pool's threads keep the mode.

#include <cstdint>

namespace plimsoll::exec {

class FloatModeScope {
 public:
  explicit FloatModeScope(int threads);
  ~FloatModeScope();
  FloatModeScope(const FloatModeScope&) = delete;
  FloatModeScope& operator=(const FloatModeScope&) = delete;

 private:
  uint64_t mode_ = 0;
  int threads_ = 1;
  int dynamic_ = 0;
};

}  // namespace plimsoll::exec
