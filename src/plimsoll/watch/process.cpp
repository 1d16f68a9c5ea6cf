#include "watch/process.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <utility>

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

// Fields of /proc/PID/stat behind the name in brackets, which may hold blanks and brackets itself.
constexpr size_t kStatFields = 20;
struct Stat {
  std::string_view name;
  char state = '?';
  std::array<int64_t, kStatFields> fields{};  // from the state's successor (parent) on
};

std::optional<Stat> parse_stat(std::string_view text) {
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  Stat stat;
  stat.name = text.substr(open + 1, close - open - 1);
  std::string_view rest = text.substr(close + 1);
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

// Places in Stat::fields (proc(5) counts from 1 and the parent is field 4).
constexpr size_t kParent = 0, kMinorFaults = 6, kMajorFaults = 8, kUserTicks = 10,
                 kSystemTicks = 11, kThreads = 16;

int64_t kilobytes(std::string_view status, std::string_view key) {
  return bytes_of_kilobytes(find_value(status, key));
}

}  // namespace

std::string ProcessReader::folder(int64_t pid) const {
  return root_ + "/proc/" + std::to_string(pid);
}

std::optional<ProcessReading> ProcessReader::read(int64_t pid) {
  const std::string path = folder(pid);
  const std::optional<std::string_view> line = file_.read(path + "/stat");
  const std::optional<Stat> stat = line ? parse_stat(*line) : std::nullopt;
  if (!stat) return std::nullopt;
  static const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  ProcessReading reading;
  reading.pid = pid;
  reading.name = stat->name;
  reading.state = stat->state;
  reading.parent = stat->fields[kParent];
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

std::vector<int64_t> ProcessReader::descendants(int64_t ancestor) {
  std::vector<std::pair<int64_t, int64_t>> parents;  // (parent, process)
  const Folder entries(::opendir((root_ + "/proc").c_str()));
  if (!entries) return {};
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::optional<int64_t> pid = number_of(entry->d_name);
    if (!pid) continue;
    const std::optional<std::string_view> line = file_.read(folder(*pid) + "/stat");
    const std::optional<Stat> stat = line ? parse_stat(*line) : std::nullopt;
    if (stat) parents.emplace_back(stat->fields[kParent], *pid);
  }
  std::sort(parents.begin(), parents.end());
  // Processes end, and their numbers are given anew, while they are read: parents may go in
  // circles.
  std::vector<bool> taken(parents.size(), false);
  std::vector<int64_t> found{ancestor};
  for (size_t i = 0; i < found.size(); ++i) {
    const auto first =
        std::lower_bound(parents.begin(), parents.end(), std::pair(found[i], int64_t{0}));
    for (auto it = first; it != parents.end() && it->first == found[i]; ++it) {
      const auto entry = static_cast<size_t>(it - parents.begin());
      if (taken[entry] || it->second == ancestor) continue;
      taken[entry] = true;
      found.push_back(it->second);
    }
  }
  found.erase(found.begin());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace plimsoll::watch
