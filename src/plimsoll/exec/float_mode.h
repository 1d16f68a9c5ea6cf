#pragma once

// Flush-to-zero in the thread that runs a plan, whatever the host program has set.
//
// Denormal numbers are flushed in inputs and results. The threads that kernels share their work
// with do so always (backend/cpu/threads/team.h), so no result depends on which of them computed
// it. The calling thread's own mode comes back at the end of the scope.

#include <cstdint>

namespace plimsoll::exec {

class FloatModeGuard {
 public:
  FloatModeGuard();
  ~FloatModeGuard();
  FloatModeGuard(const FloatModeGuard&) = delete;
  FloatModeGuard& operator=(const FloatModeGuard&) = delete;

 private:
  uint64_t mode_ = 0;
};

}  // namespace plimsoll::exec
