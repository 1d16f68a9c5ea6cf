#pragma once

// Which processes are the command's, where no control group says so.
//
// The command and all that descend from it. Orphans come to the watcher (a child subreaper), but so
// may processes that it never started: children of a shell that became the watcher, orphans of
// those, orphans of a whole container where the watcher is its first process. So a child of the
// watcher belongs to the command only where it was seen below it before, or where the environment
// that it was started with carries the command's mark, which descendants inherit. In doubt (an
// orphan that nobody saw below the command and whose environment was emptied) a process is a
// stranger: it is not counted and never ended.

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "watch/measure/process.h"

namespace plimsoll::watch {

// The entry of the command's environment that tells its processes from others.
constexpr const char* kMarkName = "PLIMSOLL_WATCH";
// A value that no other command of this machine has. It holds the marks of watchers around this
// one too, to whom its processes belong as well.
struct CommandMark {
  std::string own;
  std::string value;
};
CommandMark make_command_mark();

class CommandTree {
 public:
  // `watcher` is the process whose children orphans become.
  CommandTree(int64_t command, int64_t watcher, std::string mark, std::string root = "");

  // Its processes now, ascending.
  std::vector<int64_t> find();

 private:
  using Identity = std::pair<int64_t, int64_t>;  // number and start

  bool is_ours(const ProcessLink& child);

  int64_t command_;
  int64_t command_started_ = -1;  // negative: not seen yet
  int64_t watcher_;
  std::string mark_;
  ProcessReader reader_;
  std::set<Identity> members_;    // as of the latest look
  std::set<Identity> strangers_;  // children of the watcher that carry no mark
};

}  // namespace plimsoll::watch
