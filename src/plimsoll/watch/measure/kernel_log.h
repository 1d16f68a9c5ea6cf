#pragma once

// The kernel's own words about processes that it killed for memory, where its log may be read
// (/dev/kmsg: root, or a machine without dmesg_restrict). Only records written after the start are
// looked at. Absence of a record proves nothing: the log may be unreadable or another namespace's.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::watch {

struct OomRecord {
  int64_t pid = 0;  // of the victim, as the machine counts
  std::string name;
  bool in_group = false;  // a control group's limit, not the machine's memory
  std::string group;      // whose limit
  int64_t anonymous = 0;  // bytes that it held
  std::string text;       // the record, without control characters
  bool operator==(const OomRecord&) const = default;
};

// Reads one record's text into `records`: a line "oom-kill:constraint=…" opens one, the line
// "Killed process …" that follows adds to it or opens one.
void read_oom_record(std::string_view text, std::vector<OomRecord>& records);

class KernelLog {
 public:
  KernelLog();
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;
  ~KernelLog();

  bool is_readable() const { return descriptor_ >= 0; }
  // What has come since the last call; at most some hundred records at a time.
  void poll();
  const std::vector<OomRecord>& records() const { return records_; }

 private:
  int descriptor_ = -1;
  std::vector<OomRecord> records_;
};

}  // namespace plimsoll::watch
