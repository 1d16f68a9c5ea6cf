#include "watch/capture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/format.h"
#include "watch/measure/map_line.h"
#include "watch/output.h"

extern char** environ;  // NOLINT(readability-identifier-naming): the system's

namespace plimsoll::watch {
namespace {

constexpr size_t kNone = std::string_view::npos;

bool ends_in_library(std::string_view name) {
  return name.find(".so") != kNone || name.ends_with(".node");
}

int64_t& kind_of(const Mapping& mapping, char executable, MapKinds& kinds) {
  const std::string_view name = mapping.name;
  if (name == "[heap]") return kinds.heap;
  if (name.starts_with("[stack")) return kinds.stacks;
  if (name.empty() || name.starts_with("[")) return kinds.anonymous;
  if (name.starts_with("/dev/shm/") || name.starts_with("/memfd:") || name.starts_with("/SYSV") ||
      name.starts_with("/dev/zero")) {
    return kinds.shared;
  }
  if (name.starts_with("/dev/")) return kinds.devices;
  return executable == 'x' || ends_in_library(name) ? kinds.binaries : kinds.files;
}

void keep_largest(std::vector<Mapping>& mappings, Mapping mapping) {
  const auto place = std::find_if(mappings.begin(), mappings.end(), [&](const Mapping& other) {
    return other.resident < mapping.resident;
  });
  if (place == mappings.end() && mappings.size() >= Capture::kMostRows) return;
  mappings.insert(place, std::move(mapping));
  if (mappings.size() > Capture::kMostRows) mappings.pop_back();
}

}  // namespace

void MapReader::line(std::string_view line) {
  MapLine map;
  if (parse_map_line(line, map)) {
    close();
    current_ = {0, map.extent(), std::string(map.name.substr(0, 200))};
    permissions_ = map.permissions.size() > 2 ? map.permissions[2] : ' ';
    open_ = true;
  } else if (open_ && line.starts_with("Rss:")) {
    current_.resident = bytes_of_kilobytes(leading_number(line.substr(4)));
  }
}

void MapReader::close() {
  if (open_ && current_.resident > 0) {
    kind_of(current_, permissions_, kinds_) += current_.resident;
    current_.name = current_.name.empty() ? "anonymous" : clean_line(current_.name, 200);
    keep_largest(mappings_, current_);
  }
  open_ = false;
}

void MapReader::finish(MapKinds& kinds, std::vector<Mapping>& mappings) {
  close();
  kinds = kinds_;
  mappings = std::move(mappings_);
}

void capture_processes(const std::vector<int64_t>& pids, Capture& capture,
                       const std::string& root) {
  ProcessReader reader(root);
  for (const int64_t pid : pids) {
    const std::optional<ProcessReading> reading = reader.read(pid);
    if (!reading) continue;
    ++capture.process_count;
    capture.processes.push_back({pid, clean_line(reading->name, 32), reading->resident,
                                 reading->anonymous, reading->shared});
  }
  std::stable_sort(
      capture.processes.begin(), capture.processes.end(),
      [](const ProcessRow& a, const ProcessRow& b) { return a.resident > b.resident; });
  if (capture.processes.size() > Capture::kMostRows) capture.processes.resize(Capture::kMostRows);
  if (capture.processes.empty()) return;
  MapReader map;
  read_kernel_lines(fmt::format("{}/proc/{}/smaps", root, capture.processes.front().pid),
                    [&](std::string_view line) { map.line(line); });
  map.finish(capture.kinds, capture.mappings);
}

std::vector<std::string> python_stack(int64_t pid, double seconds) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const std::string number = std::to_string(pid);
  std::array<const char*, 6> words{"py-spy", "dump",         "--nonblocking",
                                   "--pid",  number.c_str(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, "py-spy", &actions, nullptr,
                                   const_cast<char* const*>(words.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string text;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (error == 0 && text.size() < (1 << 14)) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd wait{ends[0], POLLIN, 0};
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) <= 0) break;
    std::array<char, 4096> block;
    const ssize_t got = ::read(ends[0], block.data(), block.size());
    if (got <= 0) break;
    text.append(block.data(), static_cast<size_t>(got));
  }
  ::close(ends[0]);
  if (error != 0) return {};
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size() && lines.size() < 40;) {
    const size_t stop = std::min(text.find('\n', at), text.size());
    lines.push_back(clean_line(std::string_view(text).substr(at, stop - at), 200));
    at = stop + 1;
  }
  return lines;
}

}  // namespace plimsoll::watch
