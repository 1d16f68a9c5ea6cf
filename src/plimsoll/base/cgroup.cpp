#include "base/cgroup.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "base/error.h"
#include "base/file.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxFileBytes = 8 << 20;  // mountinfo of a machine with many containers
// v1 writes "no limit" as the largest multiple of the page size below 2^63.
constexpr int64_t kUnlimited = int64_t{1} << 62;
constexpr size_t kMaxDepth = 64;

std::optional<std::string> read_optional(const std::string& path) {
  if (::access(path.c_str(), R_OK) != 0) return std::nullopt;
  try {
    return read_text_file(path, kMaxFileBytes);
  } catch (const Error&) {
    return std::nullopt;  // a group may vanish, and some files refuse reading at the root
  }
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

bool lists(std::string_view comma_separated, std::string_view word) {
  const std::vector<std::string_view> words = split(comma_separated, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::optional<int64_t> read_number(const std::string& path) {
  const std::optional<std::string> text = read_optional(path);
  return text ? parse_number(*text) : std::nullopt;
}

// The number after `key` in lines of "key value".
std::optional<int64_t> read_keyed(const std::string& path, std::string_view key) {
  const std::optional<std::string> text = read_optional(path);
  if (!text) return std::nullopt;
  for (std::string_view line : split(*text, '\n')) {
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      return parse_number(line.substr(key.size() + 1));
    }
  }
  return std::nullopt;
}

// The sum of what lines of "key value" say of these keys; none where none of them is there.
std::optional<Bytes> read_sum(const std::string& path,
                              std::initializer_list<std::string_view> keys) {
  std::optional<Bytes> sum;
  for (const std::string_view key : keys) {
    const std::optional<int64_t> value = read_keyed(path, key);
    if (value) sum = sum.value_or(Bytes()) + Bytes(*value);
  }
  return sum;
}

// Reads "full avg10=1.25 avg60=…" (Documentation/accounting/psi.rst).
std::optional<double> read_stalls(const std::string& path) {
  constexpr std::string_view kBefore = "full avg10=";
  const std::optional<std::string> text = read_optional(path);
  const size_t at = text ? text->find(kBefore) : std::string::npos;
  if (at == std::string::npos) return std::nullopt;
  const char* const first = text->data() + at + kBefore.size();
  double percent = 0;
  const auto [end, error] = std::from_chars(first, text->data() + text->size(), percent);
  if (error != std::errc()) return std::nullopt;
  return percent;
}

// mountinfo writes blanks and backslashes as \040 and the like.
std::string unescape(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '7';
    };
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      const int code = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
      result += static_cast<char>(code);
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

struct Mount {
  std::string root;   // what part of the hierarchy is mounted
  std::string point;  // where
};

// Line of /proc/self/mountinfo: id parent major:minor root point options… - type source options.
std::optional<Mount> find_mount(std::string_view mountinfo, std::string_view type,
                                std::string_view controller) {
  for (std::string_view line : split(mountinfo, '\n')) {
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const std::vector<std::string_view> left = split(line.substr(0, dash), ' ');
    const std::vector<std::string_view> right = split(line.substr(dash + 3), ' ');
    if (left.size() < 5 || right.size() < 3 || right[0] != type) continue;
    if (!controller.empty() && !lists(right[2], controller)) continue;
    return Mount{unescape(left[3]), unescape(left[4])};
  }
  return std::nullopt;
}

// The group's path of a line "id:controllers:path" in /proc/self/cgroup; v2's has no controllers.
std::optional<std::string> find_path(std::string_view groups, std::string_view controller) {
  for (std::string_view line : split(groups, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view names = line.substr(first + 1, second - first - 1);
    const bool found = controller.empty() ? names.empty() && line.substr(0, first) == "0"
                                          : lists(names, controller);
    if (found) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

// Folders from the group up to the mount point. A container often sees only its own part of the
// hierarchy: the mount's root is then a prefix of the path (or the path is outside of what is
// mounted, and the mount point itself is the nearest thing to be had).
std::vector<std::string> folders_of(const Mount& mount, std::string path, const std::string& root) {
  if (mount.root != "/") {
    const bool inside = path == mount.root || path.starts_with(mount.root + "/");
    path = inside ? path.substr(mount.root.size()) : "";
  }
  if (path.find("/..") != std::string::npos) path.clear();
  while (!path.empty() && path.back() == '/') path.pop_back();
  std::vector<std::string> folders;
  while (!path.empty() && folders.size() < kMaxDepth) {
    folders.push_back(root + mount.point + path);
    path.resize(path.rfind('/'));
  }
  folders.push_back(root + mount.point);
  return folders;
}

// None: unlimited.
std::optional<Bytes> limit_in(const std::string& folder, const char* file_name) {
  const std::optional<int64_t> limit = read_number(folder + "/" + file_name);
  if (!limit || *limit < 0 || *limit >= kUnlimited) return std::nullopt;
  return Bytes(*limit);
}

std::optional<Bytes> smaller(std::optional<Bytes> a, std::optional<Bytes> b) {
  if (!a || !b) return a ? a : b;
  return min(*a, *b);
}

std::optional<Bytes> smallest_limit(const CgroupPlace& place, const char* file_name) {
  std::optional<Bytes> smallest;
  for (const std::string& folder : place.folders) {
    smallest = smaller(smallest, limit_in(folder, file_name));
  }
  return smallest;
}

// Limits less what a group and all below it hold, by these keys of its memory.stat; the least of
// the group and its ancestors.
std::optional<Bytes> least_left(const CgroupPlace& place, std::initializer_list<const char*> limits,
                                std::initializer_list<std::string_view> held_keys) {
  std::optional<Bytes> least;
  for (const std::string& folder : place.folders) {
    std::optional<Bytes> limit;
    for (const char* name : limits) limit = smaller(limit, limit_in(folder, name));
    const std::optional<Bytes> held = read_sum(folder + "/memory.stat", held_keys);
    if (limit && held) least = smaller(least, *limit - min(*held, *limit));
  }
  return least;
}

std::optional<Bytes> read_amount(const std::string& path) {
  const std::optional<int64_t> number = read_number(path);
  if (!number) return std::nullopt;
  return Bytes(*number);
}

// Quota over period of one group; none: unlimited or unknown.
std::optional<double> quota_of(CgroupVersion version, const std::string& folder) {
  std::optional<int64_t> quota;
  std::optional<int64_t> period;
  if (version == CgroupVersion::kV2) {
    const std::optional<std::string> text = read_optional(folder + "/cpu.max");
    if (!text) return std::nullopt;
    const std::vector<std::string_view> parts = split(*text, ' ');
    if (parts.size() < 2) return std::nullopt;
    quota = parse_number(parts[0]);  // "max" is no number
    period = parse_number(parts[1]);
  } else {
    quota = read_number(folder + "/cpu.cfs_quota_us");
    period = read_number(folder + "/cpu.cfs_period_us");
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace

std::string_view to_string(CgroupVersion version) {
  switch (version) {
    case CgroupVersion::kNone:
      return "none";
    case CgroupVersion::kV1:
      return "v1";
    case CgroupVersion::kV2:
      return "v2";
  }
  return "none";
}

CgroupPlace find_cgroup(std::string_view controller, const std::string& root) {
  const std::optional<std::string> groups = read_optional(root + "/proc/self/cgroup");
  const std::optional<std::string> mounts = read_optional(root + "/proc/self/mountinfo");
  if (!groups || !mounts) return {};
  const std::optional<std::string> v1_path = find_path(*groups, controller);
  const std::optional<Mount> v1_mount = find_mount(*mounts, "cgroup", controller);
  if (v1_path && v1_mount) {
    return {CgroupVersion::kV1, folders_of(*v1_mount, *v1_path, root)};
  }
  const std::optional<std::string> v2_path = find_path(*groups, "");
  const std::optional<Mount> v2_mount = find_mount(*mounts, "cgroup2", "");
  if (!v2_path || !v2_mount) return {};
  // A hybrid system mounts version 2 without controllers.
  const std::optional<std::string> offered =
      read_optional(root + v2_mount->point + "/cgroup.controllers");
  if (offered) {
    std::string_view names(*offered);
    while (!names.empty() && names.back() == '\n') names.remove_suffix(1);
    const std::vector<std::string_view> words = split(names, ' ');
    if (std::find(words.begin(), words.end(), controller) == words.end()) return {};
  }
  return {CgroupVersion::kV2, folders_of(*v2_mount, *v2_path, root)};
}

CgroupMemory read_cgroup_memory(const std::string& root) {
  const CgroupPlace place = find_cgroup("memory", root);
  CgroupMemory memory;
  memory.version = place.version;
  if (place.version == CgroupVersion::kNone) return memory;
  memory.path = place.folders.front();
  const std::string folder = memory.path + "/";
  if (place.version == CgroupVersion::kV1) {
    memory.limit = smallest_limit(place, "memory.limit_in_bytes");
    memory.usage = read_amount(folder + "memory.usage_in_bytes");
    memory.high_water = read_amount(folder + "memory.max_usage_in_bytes");
    memory.oom_kills = read_keyed(folder + "memory.oom_control", "oom_kill");
    memory.limit_hits = read_number(folder + "memory.failcnt");
    memory.left = least_left(place, {"memory.limit_in_bytes"}, {"total_rss", "total_shmem"});
  } else {
    memory.limit = smallest_limit(place, "memory.max");
    memory.high = smallest_limit(place, "memory.high");
    memory.swap_limit = smallest_limit(place, "memory.swap.max");
    memory.usage = read_amount(folder + "memory.current");
    memory.high_water = read_amount(folder + "memory.peak");
    memory.oom_kills = read_keyed(folder + "memory.events", "oom_kill");
    memory.limit_hits = read_keyed(folder + "memory.events", "max");
    memory.left = least_left(place, {"memory.max", "memory.high"},
                             {"anon", "shmem", "kernel_stack", "pagetables", "slab_unreclaimable"});
  }
  return memory;
}

std::optional<double> read_memory_pressure(const std::string& root) {
  const CgroupPlace place = find_cgroup("memory", root);
  if (place.version == CgroupVersion::kV2) {
    const std::optional<double> own = read_stalls(place.folders.front() + "/memory.pressure");
    if (own) return own;
  }
  return read_stalls(root + "/proc/pressure/memory");
}

std::optional<double> read_cgroup_cpu_quota(const std::string& root) {
  const CgroupPlace place = find_cgroup("cpu", root);
  std::optional<double> smallest;
  for (const std::string& folder : place.folders) {
    const std::optional<double> quota = quota_of(place.version, folder);
    if (quota && (!smallest || *quota < *smallest)) smallest = quota;
  }
  return smallest;
}

}  // namespace plimsoll
