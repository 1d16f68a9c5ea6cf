#pragma once

// A control group of the command's own: an exact account, a limit that the kernel holds, and a
// certain way to end everything in it and nothing else.
//
// Made below this process's own group (v1) or beside it (v2, where a group with processes may have
// no limited children). That needs write access: root, or a user's delegated subtree. Where it
// cannot be made, `make_group` says why and the watcher falls back on sampling. The group is
// removed at the end; processes that outlive the command are handed back to where the watcher
// stands.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cgroup.h"
#include "watch/measure/kernel_file.h"

namespace plimsoll::watch {

// Bytes, from the group's own account.
struct GroupMemory {
  int64_t anonymous = 0;
  int64_t shared = 0;
  int64_t cache = 0;  // page cache of files, which the kernel can take back
  int64_t kernel = 0;
  int64_t swapped = 0;
  int64_t usage = 0;
  int64_t held() const { return anonymous + shared + kernel + swapped; }
};

struct GroupEvents {
  int64_t oom_kills = 0;
  int64_t limit_hits = 0;
  bool operator==(const GroupEvents&) const = default;
};

class Group {
 public:
  Group() = default;  // none
  Group(Group&& other) noexcept;
  Group& operator=(Group&& other) noexcept;
  ~Group();

  bool exists() const { return version_ != CgroupVersion::kNone; }
  CgroupVersion version() const { return version_; }
  const std::string& folder() const { return folder_; }
  const std::optional<int64_t>& limit() const { return limit_; }

  // A descriptor that a process writes "0" to, to enter. Open until the group is closed.
  int entrance() const { return entrance_; }

  std::optional<int64_t> usage();
  std::optional<int64_t> high_water();
  GroupMemory memory();
  GroupEvents events();
  std::vector<int64_t> members();

  // SIGKILL to all of it, and only to it.
  void kill();
  // Hands survivors back and removes the folder. Returns how many there were.
  int64_t close();

 private:
  friend struct GroupMaker;

  CgroupVersion version_ = CgroupVersion::kNone;
  std::string folder_;
  std::string home_;  // where this process stands
  std::optional<int64_t> limit_;
  int entrance_ = -1;
  KernelFile file_;
};

struct GroupOutcome {
  Group group;
  std::string why_not;  // "" when there is a group
};

// `limit` in bytes, swap included where the kernel accounts it; none: an account only.
GroupOutcome make_group(std::optional<int64_t> limit);

// Limits and kills of the groups that this process stands in, whose limits bind the command too.
struct AncestorReading {
  std::optional<int64_t> limit;  // the smallest, in bytes
  std::string limit_folder;      // whose it is
  int64_t oom_kills = 0;
  int64_t limit_hits = 0;  // of the folder with the smallest limit
};
AncestorReading read_ancestors(const std::string& root = "");

// Processes that the kernel has killed for memory on this machine since it was started.
std::optional<int64_t> machine_oom_kills(const std::string& root = "");

}  // namespace plimsoll::watch
