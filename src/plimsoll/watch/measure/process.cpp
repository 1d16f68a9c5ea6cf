#include "watch/measure/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <set>
#include <utility>

#include "base/format.h"

namespace plimsoll::watch {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

std::optional<int64_t> number_of(const char* name) {
  int64_t value = 0;
  const std::string_view text(name);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Places in ProcessStat::fields (proc(5) counts from 1 and the parent is field 4).
constexpr size_t kMinorFaults = 6, kMajorFaults = 8, kUserTicks = 10, kSystemTicks = 11,
                 kThreads = 16;

int64_t kilobytes(std::string_view status, std::string_view key) {
  return bytes_of_kilobytes(find_value(status, key));
}

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view line) {
  // The kernel sets the name in brackets; after the last one there are numbers alone.
  const size_t open = line.find('(');
  const size_t close = line.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  ProcessStat stat;
  stat.name = line.substr(open + 1, close - open - 1);
  std::string_view rest = line.substr(close + 1);
  if (rest.size() < 3) return std::nullopt;
  stat.state = rest[1];
  rest.remove_prefix(2);
  for (int64_t& field : stat.fields) {
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), field);
    if (error != std::errc()) return std::nullopt;
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  }
  return stat;
}

std::string ProcessReader::folder(int64_t pid) const {
  return fmt::format("{}/proc/{}", root_, pid);
}

std::optional<ProcessReading> ProcessReader::read(int64_t pid) {
  const std::string path = folder(pid);
  const std::optional<std::string_view> line = file_.read(path + "/stat");
  const std::optional<ProcessStat> stat = line ? parse_process_stat(*line) : std::nullopt;
  if (!stat) return std::nullopt;
  static const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  ProcessReading reading;
  reading.pid = pid;
  reading.name = stat->name;
  reading.state = stat->state;
  reading.parent = stat->parent();
  reading.minor_faults = stat->fields[kMinorFaults];
  reading.major_faults = stat->fields[kMajorFaults];
  reading.cpu_seconds = (static_cast<double>(stat->fields[kUserTicks]) +
                         static_cast<double>(stat->fields[kSystemTicks])) /
                        ticks;
  reading.threads = stat->fields[kThreads];
  add_memory(reading);
  if (const std::optional<std::string_view> io = file_.read(path + "/io")) {
    reading.read_bytes = find_value(*io, "read_bytes").value_or(0);
    reading.written_bytes = find_value(*io, "write_bytes").value_or(0);
    reading.taken_bytes = find_value(*io, "rchar").value_or(0);
  }
  return reading;
}

bool ProcessReader::add_memory(ProcessReading& reading) {
  const std::optional<std::string_view> status = file_.read(folder(reading.pid) + "/status");
  if (!status) return false;
  reading.resident = kilobytes(*status, "VmRSS");
  reading.peak_resident = kilobytes(*status, "VmHWM");
  reading.peak_address_space = kilobytes(*status, "VmPeak");
  reading.anonymous = kilobytes(*status, "RssAnon");
  reading.file = kilobytes(*status, "RssFile");
  reading.shared = kilobytes(*status, "RssShmem");
  reading.swapped = kilobytes(*status, "VmSwap");
  reading.page_tables = kilobytes(*status, "VmPTE");
  return true;
}

std::optional<ProcessReading> ProcessReader::read_memory(int64_t pid) {
  ProcessReading reading;
  reading.pid = pid;
  return add_memory(reading) ? std::optional<ProcessReading>(reading) : std::nullopt;
}

std::optional<int64_t> ProcessReader::proportional(int64_t pid) {
  const std::optional<std::string_view> text = file_.read(folder(pid) + "/smaps_rollup");
  if (!text) return std::nullopt;
  const std::optional<int64_t> value = find_value(*text, "Pss");
  return value ? std::optional<int64_t>(bytes_of_kilobytes(value)) : std::nullopt;
}

std::optional<int64_t> ProcessReader::open_files(int64_t pid) const {
  const Folder entries(::opendir((folder(pid) + "/fd").c_str()));
  if (!entries) return std::nullopt;
  int64_t count = 0;
  while (const dirent* entry = ::readdir(entries.get())) {
    if (entry->d_name[0] != '.') ++count;
  }
  return count;
}

std::optional<int64_t> ProcessReader::soft_limit(int64_t pid, std::string_view name) {
  const std::optional<std::string_view> text = file_.read(folder(pid) + "/limits");
  if (!text) return std::nullopt;
  const size_t at = text->find(name);
  if (at == std::string_view::npos) return std::nullopt;
  return leading_number(text->substr(at + name.size()));
}

std::optional<int64_t> ProcessReader::file_limit(int64_t pid) {
  return soft_limit(pid, "Max open files");
}

std::optional<int64_t> ProcessReader::address_space_limit(int64_t pid) {
  return soft_limit(pid, "Max address space");
}

std::optional<bool> ProcessReader::environment_says(int64_t pid, std::string_view name,
                                                    std::string_view text) {
  constexpr size_t kMostBytes = size_t{4} << 20;  // Linux hands over 2 MiB by default
  const int descriptor = ::open((folder(pid) + "/environ").c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  std::string entries;
  std::array<char, 4096> block{};
  ssize_t got = 0;
  while (entries.size() < kMostBytes &&
         (got = ::read(descriptor, block.data(), block.size())) > 0) {
    entries.append(block.data(), static_cast<size_t>(got));
  }
  ::close(descriptor);
  if (entries.empty()) return std::nullopt;
  const std::string prefix = std::string(name) + "=";
  for (size_t at = 0; at < entries.size();) {
    const size_t end = std::min(entries.find('\0', at), entries.size());
    const std::string_view entry = std::string_view(entries).substr(at, end - at);
    if (entry.starts_with(prefix)) return entry.find(text) != std::string_view::npos;
    at = end + 1;
  }
  return false;
}

std::vector<ProcessLink> ProcessReader::links() {
  std::vector<ProcessLink> links;
  const Folder entries(::opendir((root_ + "/proc").c_str()));
  if (!entries) return {};
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::optional<int64_t> pid = number_of(entry->d_name);
    if (!pid) continue;
    const std::optional<std::string_view> line = file_.read(folder(*pid) + "/stat");
    const std::optional<ProcessStat> stat = line ? parse_process_stat(*line) : std::nullopt;
    if (stat) links.push_back({*pid, stat->parent(), stat->started()});
  }
  std::sort(links.begin(), links.end(), [](const ProcessLink& a, const ProcessLink& b) {
    return std::pair(a.parent, a.pid) < std::pair(b.parent, b.pid);
  });
  return links;
}

std::vector<int64_t> with_descendants(const std::vector<ProcessLink>& links,
                                      const std::vector<int64_t>& roots) {
  // Processes end, and their numbers are given anew, while they are read: parents may go in
  // circles.
  std::set<int64_t> found(roots.begin(), roots.end());
  std::vector<int64_t> waiting(found.begin(), found.end());
  while (!waiting.empty()) {
    const int64_t parent = waiting.back();
    waiting.pop_back();
    auto it = std::lower_bound(
        links.begin(), links.end(), parent,
        [](const ProcessLink& link, int64_t value) { return link.parent < value; });
    for (; it != links.end() && it->parent == parent; ++it) {
      if (found.insert(it->pid).second) waiting.push_back(it->pid);
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace plimsoll::watch
