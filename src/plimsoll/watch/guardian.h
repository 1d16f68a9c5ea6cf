#pragma once

// Ends the command when the watcher is killed.
//
// SIGKILL lets nobody clean up, so a small process waits beside the watcher for the end of a pipe
// that only the watcher holds. When it comes without a farewell, everything in the command's
// control group is killed and the group removed; without a group, the processes that the watcher
// had seen and all that descend from them. The command itself gets SIGKILL from the kernel at once
// (PR_SET_PDEATHSIG, child.cpp). Where the watcher ends in its own way, nothing is ended.
//
// Without a group, a process that was started within the last interval of sampling and whose parent
// has ended may be missed.

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "watch/measure/group.h"

namespace plimsoll::watch {

class Guardian {
 public:
  Guardian() = default;
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  ~Guardian() { dismiss(); }

  // Before the command is started; without threads. Does nothing where no process can be made.
  void post(Group& group);
  // The processes of the tree, now.
  void tell(std::span<const int64_t> pids);
  pid_t pid() const { return pid_; }
  // The watcher ends in its own way.
  void dismiss();

 private:
  struct Board;

  Board* board_ = nullptr;  // shared with the guardian
  int farewell_ = -1;
  pid_t pid_ = -1;
};

}  // namespace plimsoll::watch
