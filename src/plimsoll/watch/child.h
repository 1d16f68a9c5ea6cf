#pragma once

// Starts the command: in its group, with its streams, with the signal state it would have had.

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace plimsoll::watch {

struct ChildSetup {
  const std::vector<std::string>& command;
  const std::vector<std::pair<std::string, std::string>>& environment;
  int group_entrance = -1;  // see group.h
  int output = -1;          // standard output and error of the command
  int error = -1;
};

struct ChildStart {
  pid_t pid = -1;
  int error = 0;  // of exec; the child has ended then
};

// Signals are blocked in the watcher; the command starts with `unblocked` state: none blocked that
// was not before, SIGPIPE as usual.
ChildStart start_child(const ChildSetup& setup);

}  // namespace plimsoll::watch
