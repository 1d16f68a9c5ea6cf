#pragma once

// How the command ended and why, concluded from what was seen. A pure function.
//
// The evidence, strongest first: the counters of the command's own group; the kernel's log; the
// counters of the groups around it and of the machine; which signals were sent from here; what the
// program printed (read by explain); what was measured. SIGKILL or exit code 137 without an oom
// event is a kill, not a shortage of memory, and is said to be that.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "explain/explanation.h"
#include "watch/measure/copies.h"
#include "watch/measure/kernel_log.h"

namespace plimsoll::watch {

enum class VerdictKind {
  kDone,               // exit code 0
  kFailed,             // exit code of its own, and nothing speaks of an exhausted resource
  kKilledByLimit,      // by the kernel, at the limit given to the watcher
  kWorkerKilled,       // the same, but of a process below the command
  kKilledByContainer,  // by the kernel, at a limit around the watcher
  kKilledBySystem,     // by the kernel, the machine's memory being full
  kStoppedAtLimit,     // by the watcher, where the kernel does not hold the limit
  kOutOfMemory,        // the program was refused memory and said so
  kOutOfDeviceMemory,
  kSharedMemoryFull,
  kDescriptors,
  kDiskFull,
  kMessageTooLarge,
  kKilled,       // SIGKILL from somebody else
  kInterrupted,  // by a signal that the watcher was sent and passed on
  kSignal,       // any other
  kNotStarted,
};
std::string_view to_string(VerdictKind kind);

struct Ending {
  int start_error = 0;  // of exec; 0: it was started
  std::string start_path;
  int signal = 0;  // that ended it; 0: it exited
  int exit_code = 0;
  int forwarded_signal = 0;         // sent to the watcher and passed on; 0: none
  bool stopped_for_limit = false;   // the watcher ended it
  std::optional<int64_t> limit;     // given to the watcher
  bool kernel_holds_limit = false;  // there is a group of its own
  std::string group_name;           // last part of its path
  int64_t peak_held = 0;
  DataCopies copies;
  // How fast memory rises that surely rises with the steps to the end; 0: it does not.
  double leak_per_step = 0;
  double leaked = 0;  // over the steps that were judged

  // Since the start of the command.
  int64_t group_oom_kills = 0;
  int64_t group_limit_hits = 0;               // not every kernel counts them
  std::optional<int64_t> group_high_water{};  // page cache included
  int64_t container_oom_kills = 0;
  int64_t container_limit_hits = 0;
  std::optional<int64_t> container_limit;
  std::string container_folder;
  int64_t machine_oom_kills = 0;
  bool kernel_log_readable = false;
  std::vector<OomRecord> kernel_log;
  int64_t main_pid = 0;
  std::vector<int64_t> pids;  // sorted; all that were ever seen in the tree

  std::optional<int64_t> address_space_limit;
  int64_t address_space_used = 0;  // at its highest, of the process that has the limit
  std::optional<int64_t> open_files, file_limit;  // of the process that had most
  std::optional<int64_t> shm_used, shm_size;      // highest use
  explain::Explanation explanation;               // of what was printed
};

struct Verdict {
  VerdictKind kind = VerdictKind::kDone;
  std::string resource;  // as in explain: "host_memory", …; "" where none
  std::string sentence;
  double confidence = 1;
  std::vector<std::string> evidence;
  std::vector<std::string> advice;
  std::vector<std::string> not_worth;  // what would not help, with its number
};

Verdict conclude(const Ending& ending);

// Whether the command died for want of host memory, so that a smaller batch may help.
bool is_memory_death(const Verdict& verdict);

// "SIGKILL", "SIGSEGV", …, "signal 42".
std::string signal_name(int signal);

}  // namespace plimsoll::watch
