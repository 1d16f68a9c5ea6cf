#include "process_taken.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace plimsoll::python {
namespace {

constexpr int64_t kKernelStack = 16 << 10;
constexpr int64_t kTables = 256;  // page tables take no more than a 256th of what they map

int64_t page_bytes() {
  static const int64_t bytes = ::sysconf(_SC_PAGESIZE);
  return bytes;
}

// The begin of a small file of the kernel's; empty where it cannot be read.
template <size_t n>
std::string_view read_begin(const char* path, std::array<char, n>& text) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t length = ::read(file, text.data(), n - 1);
  ::close(file);
  if (length <= 0) return {};
  text[static_cast<size_t>(length)] = '\0';
  return {text.data(), static_cast<size_t>(length)};
}

// The number after "\nKey:"; 0 where there is none.
int64_t number_of(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  return at == std::string_view::npos ? 0
                                      : std::strtoll(text.data() + at + key.size(), nullptr, 10);
}

struct File {
  bool is_program = false;
  int64_t resident = 0;  // without copies that were written to
};

bool stays_in_memory(std::string_view path) {
  return path.starts_with("/dev/") || path.starts_with("/memfd:") || path.starts_with("/SYSV");
}

// Pages of mapped files that are no programs and lie on a disk.
int64_t of_data_files() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> lines(std::fopen("/proc/self/smaps", "re"),
                                                              std::fclose);
  if (lines == nullptr) return 0;
  std::map<std::string, File> files;
  File* now = nullptr;
  std::array<char, 4608> line;
  while (std::fgets(line.data(), line.size(), lines.get()) != nullptr) {
    std::array<char, 8> rights{};
    std::array<char, 32> device{};
    unsigned long inode = 0;
    int path = 0;
    if (std::sscanf(line.data(), "%*x-%*x %7s %*x %31s %lu %n", rights.data(), device.data(),
                    &inode, &path) == 3) {
      now = nullptr;
      if (inode == 0 || stays_in_memory(line.data() + path)) continue;
      now = &files[std::string(device.data()) + ' ' + std::to_string(inode)];
      now->is_program = now->is_program || rights[2] == 'x';
    } else if (now != nullptr && std::strncmp(line.data(), "Rss:", 4) == 0) {
      now->resident += std::strtoll(line.data() + 4, nullptr, 10) * 1024;
    } else if (now != nullptr && std::strncmp(line.data(), "Anonymous:", 10) == 0) {
      now->resident -= std::strtoll(line.data() + 10, nullptr, 10) * 1024;
    }
  }
  int64_t total = 0;
  for (const auto& [name, file] : files) total += file.is_program ? 0 : file.resident;
  return total;
}

}  // namespace

int64_t taken_at_most() {
  std::array<char, 256> text;
  const std::string_view line = read_begin("/proc/self/statm", text);
  const size_t second = line.find(' ');
  if (second == std::string_view::npos) return 0;
  const int64_t resident = std::strtoll(line.data() + second, nullptr, 10) * page_bytes();
  return resident + resident / kTables + (4 << 20);
}

int64_t taken_exactly(int64_t enough) {
  std::array<char, 8192> buffer;
  const std::string_view text = read_begin("/proc/self/status", buffer);
  const int64_t in_kilobytes = number_of(text, "\nVmRSS:") + number_of(text, "\nVmPTE:");
  const int64_t taken = in_kilobytes * 1024 + number_of(text, "\nThreads:") * kKernelStack;
  if (taken <= enough) return taken;
  // Files of a memory file system are not among RssFile, and stay.
  return taken - std::min(of_data_files(), number_of(text, "\nRssFile:") * 1024);
}

int64_t untouched(const void* begin, size_t size) {
  const auto page = static_cast<uintptr_t>(page_bytes());
  uintptr_t at = (reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(begin) + size) / page * page;
  std::array<unsigned char, 16384> flags;
  int64_t missing = 0;
  while (at < end) {
    const size_t pages = std::min<size_t>((end - at) / page, flags.size());
    if (::mincore(reinterpret_cast<void*>(at), pages * page, flags.data()) != 0) return missing;
    for (size_t i = 0; i < pages; ++i) missing += (flags[i] & 1) == 0 ? 1 : 0;
    at += pages * page;
  }
  return missing * static_cast<int64_t>(page);
}

void give_back_free_pages() { ::malloc_trim(0); }

}  // namespace plimsoll::python
