#include "watch/measure/group.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/format.h"

namespace plimsoll::watch {
namespace {

// Writes to a kernel file in one call; the error number, 0 when done.
int write_kernel(const std::string& path, std::string_view text) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  const int error = written < 0 ? errno : 0;
  ::close(descriptor);
  return error;
}

std::string reason(const std::string& what, int error) {
  return what + ": " + std::strerror(error);
}

constexpr int64_t kUnlimited = int64_t{1} << 62;

}  // namespace

// The steps of making a group, each of which may be refused.
struct GroupMaker {
  Group group;
  std::string why_not;

  bool place(std::optional<int64_t> limit) {
    const CgroupPlace place = find_cgroup("memory");
    if (place.version == CgroupVersion::kNone) {
      why_not = "this system has no memory control group";
      return false;
    }
    group.home_ = place.folders.front();
    const bool beside = place.version == CgroupVersion::kV2 && place.folders.size() > 1;
    const std::string& parent = beside ? place.folders[1] : place.folders.front();
    if (place.version == CgroupVersion::kV2) {
      const int error = write_kernel(parent + "/cgroup.subtree_control", "+memory");
      if (error != 0) {
        why_not = reason(parent + "/cgroup.subtree_control", error);
        return false;
      }
    }
    group.folder_ = fmt::format("{}/plimsoll-watch-{}", parent, ::getpid());
    if (::mkdir(group.folder_.c_str(), 0755) != 0) {
      why_not = reason(group.folder_, errno);
      return false;
    }
    group.version_ = place.version;
    group.limit_ = limit;
    return true;
  }

  bool set_limit() {
    if (!group.limit_) return true;
    const std::string bytes = std::to_string(*group.limit_);
    const bool v2 = group.version_ == CgroupVersion::kV2;
    const std::string path = group.folder_ + (v2 ? "/memory.max" : "/memory.limit_in_bytes");
    const int error = write_kernel(path, bytes);
    if (error != 0) {
      why_not = reason(path, error);
      return false;
    }
    // No swap beyond the limit; a kernel without swap accounting has no such file.
    write_kernel(group.folder_ + (v2 ? "/memory.swap.max" : "/memory.memsw.limit_in_bytes"),
                 v2 ? "0" : bytes);
    return true;
  }

  bool open_entrance() {
    const std::string path = group.folder_ + "/cgroup.procs";
    group.entrance_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (group.entrance_ < 0) why_not = reason(path, errno);
    return group.entrance_ >= 0;
  }
};

GroupOutcome make_group(std::optional<int64_t> limit) {
  GroupMaker maker;
  if (maker.place(limit) && maker.set_limit() && maker.open_entrance()) {
    return {std::move(maker.group), ""};
  }
  maker.group.close();
  return {Group(), maker.why_not};
}

Group::Group(Group&& other) noexcept { *this = std::move(other); }

Group& Group::operator=(Group&& other) noexcept {
  if (this != &other) {
    close();
    version_ = std::exchange(other.version_, CgroupVersion::kNone);
    folder_ = std::exchange(other.folder_, {});
    home_ = std::exchange(other.home_, {});
    limit_ = std::exchange(other.limit_, std::nullopt);
    entrance_ = std::exchange(other.entrance_, -1);
  }
  return *this;
}

Group::~Group() { close(); }

std::optional<int64_t> Group::usage() {
  return file_.read_number(
      folder_ + (version_ == CgroupVersion::kV2 ? "/memory.current" : "/memory.usage_in_bytes"));
}

std::optional<int64_t> Group::high_water() {
  return file_.read_number(
      folder_ + (version_ == CgroupVersion::kV2 ? "/memory.peak" : "/memory.max_usage_in_bytes"));
}

GroupMemory Group::memory() {
  GroupMemory memory;
  memory.usage = usage().value_or(0);
  const std::optional<std::string_view> text = file_.read(folder_ + "/memory.stat");
  if (!text) return memory;
  const auto value = [&](std::string_view key) { return find_value(*text, key).value_or(0); };
  if (version_ == CgroupVersion::kV2) {
    memory.anonymous = value("anon");
    memory.shared = value("shmem");
    memory.cache = std::max<int64_t>(value("file") - memory.shared, 0);
    memory.kernel = value("kernel_stack") + value("pagetables") + value("slab_unreclaimable");
  } else {
    memory.anonymous = value("total_rss");
    memory.shared = value("total_shmem");
    memory.cache = std::max<int64_t>(value("total_cache") - memory.shared, 0);
    memory.swapped = value("total_swap");
    // v1 does not split the kernel's part; what is left of the usage is it.
    memory.kernel =
        std::max<int64_t>(memory.usage - memory.anonymous - memory.shared - memory.cache, 0);
  }
  if (version_ == CgroupVersion::kV2) {
    memory.swapped = file_.read_number(folder_ + "/memory.swap.current").value_or(0);
  }
  return memory;
}

GroupEvents Group::events() {
  GroupEvents events;
  if (version_ == CgroupVersion::kV2) {
    if (const std::optional<std::string_view> text = file_.read(folder_ + "/memory.events")) {
      events.oom_kills = find_value(*text, "oom_kill").value_or(0);
      events.limit_hits = find_value(*text, "max").value_or(0);
    }
    return events;
  }
  if (const std::optional<std::string_view> text = file_.read(folder_ + "/memory.oom_control")) {
    events.oom_kills = find_value(*text, "oom_kill").value_or(0);
  }
  // With a limit of memory and swap together that one is met first.
  events.limit_hits = file_.read_number(folder_ + "/memory.failcnt").value_or(0) +
                      file_.read_number(folder_ + "/memory.memsw.failcnt").value_or(0);
  return events;
}

std::vector<int64_t> Group::members() {
  std::vector<int64_t> found;
  const std::optional<std::string_view> text = file_.read(folder_ + "/cgroup.procs");
  if (!text) return found;
  std::string_view rest = *text;
  while (const std::optional<int64_t> pid = leading_number(rest)) {
    found.push_back(*pid);
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  std::sort(found.begin(), found.end());
  return found;
}

void Group::kill() {
  if (version_ == CgroupVersion::kV2 && write_kernel(folder_ + "/cgroup.kill", "1") == 0) return;
  // Processes may fork meanwhile: again until none is left that was not killed.
  for (int round = 0; round < 100; ++round) {
    const std::vector<int64_t> pids = members();
    if (pids.empty()) return;
    for (const int64_t pid : pids) ::kill(static_cast<pid_t>(pid), SIGKILL);
    ::usleep(1000);
  }
}

int64_t Group::close() {
  if (entrance_ >= 0) ::close(std::exchange(entrance_, -1));
  if (version_ == CgroupVersion::kNone && folder_.empty()) return 0;
  int64_t survivors = 0;
  for (int round = 0; round < 50 && ::rmdir(folder_.c_str()) != 0 && errno == EBUSY; ++round) {
    const std::vector<int64_t> pids = members();
    survivors = std::max<int64_t>(survivors, static_cast<int64_t>(pids.size()));
    for (const int64_t pid : pids) write_kernel(home_ + "/cgroup.procs", std::to_string(pid));
    ::usleep(2000);  // an ended process may hold the group for a moment
  }
  version_ = CgroupVersion::kNone;
  folder_.clear();
  return survivors;
}

AncestorReading read_ancestors(const std::string& root) {
  AncestorReading reading;
  const CgroupPlace place = find_cgroup("memory", root);
  KernelFile file;
  const bool v2 = place.version == CgroupVersion::kV2;
  for (const std::string& folder : place.folders) {
    const std::optional<int64_t> limit =
        file.read_number(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    std::optional<int64_t> kills;
    if (const auto text = file.read(folder + (v2 ? "/memory.events" : "/memory.oom_control"))) {
      kills = find_value(*text, "oom_kill");
      if (kills) kills = std::min(*kills, int64_t{1} << 40);
    }
    // v2 counts a kill in every ancestor; v1 in the victim's group alone.
    if (kills) {
      reading.oom_kills = v2 ? std::max(reading.oom_kills, *kills) : reading.oom_kills + *kills;
    }
    if (!limit || *limit >= kUnlimited || (reading.limit && *limit >= *reading.limit)) continue;
    reading.limit = limit;
    reading.limit_folder = folder;
    reading.limit_hits = 0;
    if (!v2) {
      reading.limit_hits = file.read_number(folder + "/memory.failcnt").value_or(0);
    } else if (const auto text = file.read(folder + "/memory.events")) {
      reading.limit_hits = find_value(*text, "max").value_or(0);
    }
  }
  return reading;
}

std::optional<int64_t> machine_oom_kills(const std::string& root) {
  // /proc/vmstat has about 180 lines; the buffer holds them all.
  KernelFile file;
  const std::optional<std::string_view> text = file.read(root + "/proc/vmstat");
  return text ? find_value(*text, "oom_kill") : std::nullopt;
}

}  // namespace plimsoll::watch
