#pragma once

// Whether a run that is under way has to make do with another limit.
//
// Two things say so: the memory control group's limit has fallen below what the run was planned to
// take, or somebody sent SIGUSR1. The signal's value, where it has one, is the new limit in MiB
// (`kill -USR1 -q 256 PID`); without one the group's limit is read. The watch only tells: who asks,
// between two steps, stops the session, plans anew and restores the state. One watch at a time; the
// signal has its old meaning again behind it. What it does not see: that usage by others in the
// group has risen.

#include <csignal>
#include <functional>
#include <optional>

#include "base/bytes.h"

namespace plimsoll::train {

class LimitWatch {
 public:
  using Clock = std::function<double()>;                     // seconds
  using GroupLimit = std::function<std::optional<Bytes>()>;  // of the control group

  LimitWatch();
  // For tests.
  LimitWatch(Clock clock, GroupLimit group);
  ~LimitWatch();
  LimitWatch(const LimitWatch&) = delete;
  LimitWatch& operator=(const LimitWatch&) = delete;

  // The new limit for a run that is predicted to take `predicted`; none: nothing has changed. The
  // group is read once a second. An answer is given once.
  std::optional<Bytes> poll(Bytes predicted);

 private:
  Clock clock_;
  GroupLimit group_;
  struct sigaction before_ = {};
  double next_ = 0;            // when the group is read again
  std::optional<Bytes> told_;  // the group's limit that was the last answer
};

}  // namespace plimsoll::train
