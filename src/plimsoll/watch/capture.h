#pragma once

// Evidence of where memory is, taken while the processes still live: at the high mark.
//
// Bounded in size and in time; files of /proc are read through one fixed buffer, so it works when
// the machine has little left. Kinds tell what a mapping is for; `largest` names the largest ones.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "watch/measure/process.h"

namespace plimsoll::watch {

struct MapKinds {         // resident bytes
  int64_t heap = 0;       // [heap], what brk gave
  int64_t anonymous = 0;  // what mmap gave: large arrays, other threads' heaps
  int64_t stacks = 0;
  int64_t shared = 0;  // /dev/shm, memfd, System V
  int64_t binaries = 0;
  int64_t files = 0;
  int64_t devices = 0;
  bool operator==(const MapKinds&) const = default;
};

struct Mapping {
  int64_t resident = 0;
  int64_t extent = 0;
  std::string name;  // path, "[heap]", or "anonymous"
  bool operator==(const Mapping&) const = default;
};

struct ProcessRow {
  int64_t pid = 0;
  std::string name;
  int64_t resident = 0;
  int64_t anonymous = 0;
  int64_t shared = 0;
  bool operator==(const ProcessRow&) const = default;
};

struct Capture {
  static constexpr size_t kMostRows = 8;

  double seconds = 0;  // since the start
  std::string why;
  int64_t held = 0;
  std::vector<ProcessRow> processes;  // largest first, at most kMostRows
  int64_t process_count = 0;
  MapKinds kinds;                       // of the largest process
  std::vector<Mapping> mappings;        // of it, largest first, at most kMostRows
  std::vector<std::string> stack;       // Python lines of it, where py-spy could read them
  std::vector<std::string> last_lines;  // of the output
  bool operator==(const Capture&) const = default;
};

// Adds one line of /proc/PID/smaps. Lines of a mapping follow its header line.
class MapReader {
 public:
  void line(std::string_view line);
  // Ends the last mapping.
  void finish(MapKinds& kinds, std::vector<Mapping>& mappings);

 private:
  void close();

  Mapping current_;
  char permissions_ = ' ';  // 'x' for code
  bool open_ = false;
  MapKinds kinds_;
  std::vector<Mapping> mappings_;
};

// Reads rows and maps of the processes; `root` as in process.h.
void capture_processes(const std::vector<int64_t>& pids, Capture& capture,
                       const std::string& root = "");

// Python's stack of the process by `py-spy`, when that is installed and may attach; at most
// `seconds` long.
std::vector<std::string> python_stack(int64_t pid, double seconds);

}  // namespace plimsoll::watch
