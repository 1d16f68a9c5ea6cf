#pragma once

// Whether a run that is under way has to make do with another limit.
//
// Three things say so. The memory control group's limit (the one that kills or, in version 2, the
// one that slows down) has fallen below what the run was planned to take. Or processes stand still
// for want of memory (pressure stall information), and what this process could have beside what
// others hold is less than that. Or somebody sent SIGUSR1: its value, where it has one, is the new
// limit in MiB (`kill -USR1 -q 256 PID`); without one the group's limit is read. The watch only
// tells: who asks, between two steps, stops the session, plans anew and restores the state. One
// watch at a time; the signal has its old meaning again after it. What it does not tell: that
// there is more memory than before.

#include <csignal>
#include <functional>
#include <optional>

#include "base/bytes.h"

namespace plimsoll::train {

class LimitWatch {
 public:
  struct Reading {
    std::optional<Bytes> limit;  // of the control group
    std::optional<Bytes> safe;   // only under pressure: what this process may have
  };
  using Clock = std::function<double()>;  // seconds
  using Reader = std::function<Reading()>;

  // `with_signal`: whether SIGUSR1 is taken. `sharers`: processes of this run in the control group,
  // which have equal parts of its limit, and of what others leave.
  explicit LimitWatch(bool with_signal = true, int sharers = 1);
  // For tests.
  LimitWatch(Clock clock, Reader reader, bool with_signal = true);
  ~LimitWatch();
  LimitWatch(const LimitWatch&) = delete;
  LimitWatch& operator=(const LimitWatch&) = delete;

  // The new limit for a run that is predicted to take `predicted`; none: nothing has changed. The
  // system is read once a second. A limit is answered once; pressure once in half a minute, and
  // where it leaves clearly less than the run takes and than the answer before.
  std::optional<Bytes> poll(Bytes predicted);
  // The run has another plan, whoever asked for it: pressure is no answer for half a minute.
  void rest();

 private:
  Clock clock_;
  Reader reader_;
  bool takes_signal_;
  struct sigaction before_ = {};
  double next_ = 0;                 // when the system is read again
  double next_pressure_ = 0;        // when pressure is an answer again
  std::optional<Bytes> told_;       // the group's limit that was the last answer
  std::optional<Bytes> told_safe_;  // what pressure left at the last answer
};

}  // namespace plimsoll::train
