#pragma once

// One process as /proc shows it, and which processes belong to a tree.
//
// A tree is processes with all their descendants; which ones are the command's is in
// command_tree.h. `root` is "" for the real system; tests show any system below a folder. All sizes
// in bytes.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watch/measure/kernel_file.h"

namespace plimsoll::watch {

// The line of /proc/PID/stat. The name is whatever the program calls itself: blanks, brackets and
// line ends are part of it.
struct ProcessStat {
  static constexpr size_t kFields = 20;

  std::string_view name;
  char state = '?';
  std::array<int64_t, kFields> fields{};  // from the parent on, field 4 of proc(5)

  int64_t parent() const { return fields[0]; }
  int64_t started() const { return fields[18]; }  // clock ticks since boot
};
// Nothing where that is no such line. Does not allocate; the name points into `line`.
std::optional<ProcessStat> parse_process_stat(std::string_view line);

// A process and where it hangs. A number alone may be given anew; with the start it is one process.
struct ProcessLink {
  int64_t pid = 0;
  int64_t parent = 0;
  int64_t started = 0;
};

struct ProcessReading {
  int64_t pid = 0;
  int64_t parent = 0;
  char state = '?';  // R running, S sleeping, D waiting for a device, Z ended, …
  std::string name;
  int64_t resident = 0;
  int64_t peak_resident = 0;
  int64_t peak_address_space = 0;
  int64_t anonymous = 0;
  int64_t file = 0;
  int64_t shared = 0;
  int64_t swapped = 0;
  int64_t page_tables = 0;
  int64_t threads = 0;
  double cpu_seconds = 0;
  int64_t major_faults = 0;
  int64_t minor_faults = 0;
  int64_t read_bytes = 0;     // from devices
  int64_t written_bytes = 0;  // to devices
  int64_t taken_bytes = 0;    // by read calls, page cache and pipes included
};

class ProcessReader {
 public:
  explicit ProcessReader(std::string root = "") : root_(std::move(root)) {}

  // Nothing when the process is gone.
  std::optional<ProcessReading> read(int64_t pid);
  // Its memory alone, a third of the cost.
  std::optional<ProcessReading> read_memory(int64_t pid);
  // Its share of all pages that it maps (PSS). Walks the page tables: costs about a millisecond per
  // mapped GiB of small pages.
  std::optional<int64_t> proportional(int64_t pid);
  // Open descriptors, and how many it may have.
  std::optional<int64_t> open_files(int64_t pid) const;
  std::optional<int64_t> file_limit(int64_t pid);
  // RLIMIT_AS of the process; nothing: unlimited or unknown.
  std::optional<int64_t> address_space_limit(int64_t pid);

  // Whether the environment that the process was started with has `text` in the entry `name`;
  // nothing where it cannot be read, or is empty (a process between fork and exec).
  std::optional<bool> environment_says(int64_t pid, std::string_view name, std::string_view text);

  // All processes, by parent and then by number.
  std::vector<ProcessLink> links();

 private:
  std::string folder(int64_t pid) const;
  bool add_memory(ProcessReading& reading);
  std::optional<int64_t> soft_limit(int64_t pid, std::string_view name);

  std::string root_;
  KernelFile file_;
};

// `roots` and all that descend from them, in ascending order. `links` as ProcessReader has them.
std::vector<int64_t> with_descendants(const std::vector<ProcessLink>& links,
                                      const std::vector<int64_t>& roots);

}  // namespace plimsoll::watch
