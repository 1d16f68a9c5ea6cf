#pragma once

// Where this process stands in the kernel's control groups, versions 1 and 2.
//
// A limit of any ancestor binds, so limits are read from the process's own group up to the mount's
// root. Where a group file is absent or unreadable the value is absent, never guessed. All paths go
// below `root` ("" is the real system), so that tests can show any system.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace plimsoll {

enum class CgroupVersion { kNone, kV1, kV2 };
std::string_view to_string(CgroupVersion version);  // "none", "v1", "v2"

// A controller's group of this process and its ancestors.
struct CgroupPlace {
  CgroupVersion version = CgroupVersion::kNone;
  // Folders, innermost first, the mount point last; empty with kNone.
  std::vector<std::string> folders;
  friend bool operator==(const CgroupPlace&, const CgroupPlace&) = default;
};

// `controller` is "memory" or "cpu". Version 1 is preferred where both have it (hybrid systems).
CgroupPlace find_cgroup(std::string_view controller, const std::string& root = "");

// The memory controller's readings for this process's group.
struct CgroupMemory {
  CgroupVersion version = CgroupVersion::kNone;
  std::string path;                 // folder of the group, "" with kNone
  std::optional<Bytes> limit;       // smallest of the ancestors'; none: unlimited
  std::optional<Bytes> high;        // above it processes are slowed down, not killed (v2), smallest
  std::optional<Bytes> swap_limit;  // swap that may be used beside it (v2), smallest; none: unknown
  std::optional<Bytes> usage;       // of the whole group, page cache included
  // What the tightest group leaves beyond what the kernel cannot take back in it; none: unlimited.
  std::optional<Bytes> left;
  std::optional<Bytes> high_water;    // largest usage so far
  std::optional<int64_t> oom_kills;   // processes of the group killed for memory
  std::optional<int64_t> limit_hits;  // times that the limit was reached (v1 failcnt, v2 max)
  friend bool operator==(const CgroupMemory&, const CgroupMemory&) = default;
};
CgroupMemory read_cgroup_memory(const std::string& root = "");

// Percent of the last ten seconds in which every process of the group (v2), else of the machine,
// stood still for want of memory; none: this kernel does not say.
std::optional<double> read_memory_pressure(const std::string& root = "");

// Processors' worth of time that the group may use, smallest of the ancestors' quotas; none:
// unlimited.
std::optional<double> read_cgroup_cpu_quota(const std::string& root = "");

}  // namespace plimsoll
