#pragma once

// One process as /proc shows it, and which processes belong to a tree.
//
// A tree is a process with all its descendants. Orphans stay in it because the watcher makes itself
// their new parent (a child subreaper), so a tree is found by parents alone. `root` is "" for the
// real system; tests show any system below a folder. All sizes in bytes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "watch/kernel_file.h"

namespace plimsoll::watch {

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

  // Descendants of `ancestor`, itself left out, in ascending order.
  std::vector<int64_t> descendants(int64_t ancestor);

 private:
  std::string folder(int64_t pid) const;
  bool add_memory(ProcessReading& reading);
  std::optional<int64_t> soft_limit(int64_t pid, std::string_view name);

  std::string root_;
  KernelFile file_;
};

}  // namespace plimsoll::watch
