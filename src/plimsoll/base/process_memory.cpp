#include "base/process_memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;
constexpr Bytes kKernelStack = 16_KiB;

std::atomic<bool> owned{false};  // the heap, by a program of ours

// The number of a line "Key:   123 kB" (or without a unit); nothing where the line is absent.
std::optional<int64_t> find_value(std::string_view text, std::string_view key) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') continue;
    line.remove_prefix(key.size() + 1);
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error == std::errc() && stop != line.data()) return value;
  }
  return std::nullopt;
}

Bytes kilobytes(std::string_view text, std::string_view key) {
  return Bytes(find_value(text, key).value_or(0) * 1024);
}

ProcessMemory parse_status(std::string_view text, std::string_view path) {
  if (!find_value(text, "VmHWM")) {
    throw Error(ErrorKind::kIo, std::string(path) +
                                    ": expected a line VmHWM, received none. The process has "
                                    "ended, or the kernel is not Linux.");
  }
  ProcessMemory memory;
  memory.peak_resident = kilobytes(text, "VmHWM");
  memory.resident = kilobytes(text, "VmRSS");
  memory.anonymous = kilobytes(text, "RssAnon");
  memory.file = kilobytes(text, "RssFile");
  memory.shared = kilobytes(text, "RssShmem");
  memory.page_tables = kilobytes(text, "VmPTE");
  memory.swapped = kilobytes(text, "VmSwap");
  memory.threads = find_value(text, "Threads").value_or(1);
  memory.kernel_stacks = kKernelStack * memory.threads;
  return memory;
}

// Without an allocation; what does not fit is beyond the lines that are wanted.
ProcessMemory read_own_status() {
  constexpr const char* kPath = "/proc/self/status";
  std::array<char, 8192> text;
  const int file = ::open(kPath, O_RDONLY | O_CLOEXEC);
  const ssize_t length = file < 0 ? -1 : ::read(file, text.data(), text.size());
  const int error = errno;
  if (file >= 0) ::close(file);
  if (length < 0) throw_io(kPath, "read it", error, "Mount /proc.");
  return parse_status({text.data(), static_cast<size_t>(length)}, kPath);
}

}  // namespace

ProcessMemory read_process_memory(const std::string& root) {
  if (root.empty()) return read_own_status();
  const std::string path = root + "/proc/self/status";
  return parse_status(read_text_file(path, kMaxFileBytes), path);
}

ProcessMemory read_process_memory_of(int64_t process_id, const std::string& root) {
  const std::string path = fmt::format("{}/proc/{}/status", root, process_id);
  return parse_status(read_text_file(path, kMaxFileBytes), path);
}

Bytes process_memory_peak() { return read_process_memory().peak(); }

Bytes peak_uncertainty() {
  constexpr int64_t kKept = 31;     // pages
  constexpr int64_t kCounters = 2;  // anonymous, files
  constexpr int64_t kMostProcessors = 16;
  const int64_t processors =
      std::clamp<int64_t>(::sysconf(_SC_NPROCESSORS_ONLN), 1, kMostProcessors);
  return page_size() * (kKept * kCounters * processors);
}

Bytes peak_resident_at_most() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return Bytes(int64_t{usage.ru_maxrss} * 1024);
}

Bytes physical_memory(const std::string& root) {
  const std::string path = root + "/proc/meminfo";
  const std::string text = read_text_file(path, kMaxFileBytes);
  const Bytes total = kilobytes(text, "MemTotal");
  if (total <= Bytes(0)) {
    throw Error(ErrorKind::kIo, path + ": expected a line MemTotal, received none.");
  }
  return total;
}

Bytes memory_available_to_process(const std::string& root) {
  const Bytes physical = physical_memory(root);
  const CgroupMemory group = read_cgroup_memory(root);
  Bytes available = physical;
  if (group.limit) available = min(available, *group.limit);
  if (group.high) available = min(available, *group.high);
  return available;
}

Bytes memory_safe_for_process(const std::string& root) {
  const ProcessMemory process = read_process_memory(root);
  const Bytes own = process.anonymous + process.shared;  // pages of files are not held
  const Bytes available = memory_available_to_process(root);
  const std::string machine = read_text_file(root + "/proc/meminfo", kMaxFileBytes);
  Bytes left = available - min(own, available);
  if (find_value(machine, "MemAvailable")) left = min(left, kilobytes(machine, "MemAvailable"));
  return own + min(left, read_cgroup_memory(root).left.value_or(left));
}

PageFaults page_faults() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return {usage.ru_majflt, usage.ru_minflt};
}

Bytes page_size() {
  static const Bytes size(::sysconf(_SC_PAGESIZE));
  return size;
}

std::vector<bool> resident_pages(const void* address, Bytes length) {
  if (length.count() <= 0) return {};
  // /proc/self/pagemap: 64 bits for every page of the address space, bit 63 set where it is in
  // memory (Linux, Documentation/admin-guide/mm/pagemap.rst).
  const auto page = static_cast<uint64_t>(page_size().count());
  const auto begin = reinterpret_cast<uintptr_t>(address) / page;
  const auto end = (reinterpret_cast<uintptr_t>(address) + length.size() + page - 1) / page;
  const File pagemap = File::open_read("/proc/self/pagemap");
  std::vector<bool> pages;
  pages.reserve(end - begin);
  std::array<uint64_t, 512> entries;
  for (uint64_t at = begin; at < end; at += entries.size()) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(end - at, entries.size()));
    pagemap.read_at(static_cast<int64_t>(at * sizeof(uint64_t)),
                    std::as_writable_bytes(std::span(entries).first(count)));
    for (size_t i = 0; i < count; ++i) pages.push_back((entries[i] >> 63) != 0);
  }
  return pages;
}

Bytes resident_bytes(const void* address, Bytes length) {
  const std::vector<bool> pages = resident_pages(address, length);
  return page_size() * std::count(pages.begin(), pages.end(), true);
}

void own_heap() { owned = true; }
bool owns_heap() { return owned; }

void give_back_free_heap() {
  if (owned) malloc_trim(0);
}

}  // namespace plimsoll
