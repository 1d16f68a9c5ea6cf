#pragma once

// Whether the process has passed its limit, looked at after every step.
//
// The plan and the model of the memory around it say that it never does (memory_model.h). Where one
// of them is wrong the run is not ended, but it is said: whoever named a limit has to know. A look
// costs a system call and allocates nothing; only where the kernel's cheap figure is near the limit
// is the exact one read, and seldom. The kernel keeps high-water marks, so that a look at the end
// misses nothing; their own uncertainty (base/process_memory.h) is not held against the run. What
// it does not see: peaks of page tables and kernel stacks, which are counted
// as they are now.

#include <optional>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/process_memory.h"

namespace plimsoll::train {

class LimitCheck {
 public:
  // `whole_process`: what the process had taken before counts too. Otherwise only a peak that is
  // higher than that one, or what the process has now.
  LimitCheck(std::optional<Bytes> limit, Bytes arena, bool whole_process);

  // True once, at the look that finds the limit passed.
  bool look();
  // The same with an exact reading, whatever the cheap figure is.
  bool look_closely();

  // The most that the process has had, but for a peak that does not count. Reads the system.
  Bytes peak() const;

  bool passed() const { return passed_.has_value(); }
  // What was measured when it was found.
  Bytes measured() const { return passed_.value_or(Bytes()); }

 private:
  std::optional<Bytes> limit_;
  Bytes before_;  // the highest resident memory that does not count
  Bytes beside_;  // beside resident memory: page tables, kernel stacks
  std::optional<Bytes> passed_;
  SteadyClock clock_;
  double next_ = 0;  // when an exact reading may be made again
};

}  // namespace plimsoll::train
