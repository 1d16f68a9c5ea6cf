#pragma once

// What is asked of a watched run, and what came of it: plain data.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "explain/explanation.h"
#include "watch/capture.h"
#include "watch/measure/bound.h"
#include "watch/measure/copies.h"
#include "watch/measure/growth.h"
#include "watch/measure/sample.h"
#include "watch/verdict.h"

namespace plimsoll::watch {

enum class GuardWish { kAuto, kGroup, kSampling };

struct WatchOptions {
  std::vector<std::string> command;
  std::optional<int64_t> memory;  // the limit, in bytes
  GuardWish guard = GuardWish::kAuto;
  double high_mark = 0.9;     // part of the limit at which evidence is taken
  double grace_seconds = 10;  // from SIGTERM to SIGKILL, where the watcher ends the command
  double interval_seconds = 0.5;
  bool with_gpu = true;
  bool live = false;  // a status line on standard error, which is a terminal
  // Names and values put into the command's environment.
  std::vector<std::pair<std::string, std::string>> environment;
};

// Something that happened, said at once and kept for the report.
struct Event {
  double seconds = 0;
  std::string kind;  // started, high_mark, limit, terminated, killed, oom_kill, epoch, fit, ended
  std::string text;
  bool operator==(const Event&) const = default;
};

struct Peak {
  int64_t held_bytes = 0;  // could not be taken back by the kernel
  double seconds = 0;      // when it was reached
  std::string printed;     // the last line of output by then
  // The kernel's own high-water marks, which no sampling can miss.
  std::optional<int64_t> group_bytes;    // page cache included
  std::optional<int64_t> process_bytes;  // resident, of the largest process
  std::string process_name;
  int64_t process_pid = 0;
  std::optional<int64_t> gpu_bytes;
};

// What the watcher itself took.
struct OwnCost {
  double cpu_seconds = 0;
  int64_t peak_resident = 0;
  int64_t samples = 0;
};

// One of several runs of the same command (restart.h).
struct Attempt {
  std::string command;
  std::string verdict;
  int exit_code = 0;
  int64_t peak_held = 0;
  double seconds = 0;
};

struct Run {
  std::vector<std::string> command;
  std::string guard;       // which, in words
  std::string guard_kind;  // cgroup_v1, cgroup_v2, sampling
  std::optional<int64_t> limit;
  double seconds = 0;
  int exit_code = 0;  // of the command; 128 + signal where a signal ended it
  int signal = 0;
  bool limit_passed = false;
  int64_t survivors = 0;  // processes that outlive the command
  Verdict verdict;
  Peak peak;
  Curve curve;
  Growth growth;
  DataCopies copies;
  Bound bound;
  double cpus = 0;
  std::vector<Event> events;
  std::vector<Capture> captures;
  std::vector<std::string> last_lines;
  int64_t output_bytes = 0;
  explain::Explanation explanation;
  std::string gpu_name;
  OwnCost own;
  std::vector<Attempt> attempts;  // with restarts: all of them, this one last
};

// Starts the command, follows it to its end, passes its output on. `tell` gets one line for each
// thing worth saying at once; it must not throw. Throws kIo where not even a process can be made.
Run watch_command(const WatchOptions& options, const std::function<void(const Event&)>& tell);

}  // namespace plimsoll::watch
