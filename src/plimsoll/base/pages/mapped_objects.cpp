#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/process_memory.h"

namespace plimsoll {
namespace {

constexpr int64_t kMostSmapsBytes = int64_t{64} << 20;  // of a process with 10,000s of mappings

// One mapping of /proc/self/smaps.
struct Mapping {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  std::string file;  // device and inode; empty: none
  Bytes resident;
};

std::vector<Mapping> read_mappings() {
  std::vector<Mapping> mappings;
  std::istringstream lines(read_text_file("/proc/self/smaps", kMostSmapsBytes));
  for (std::string line; std::getline(lines, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    unsigned long inode = 0;
    long long kilobytes = 0;
    char device[32] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %*x %31s %lu", &begin, &end, device, &inode) == 4) {
      mappings.push_back({begin, end, {}, {}});
      if (inode != 0) mappings.back().file = fmt::format("{} {}", device, inode);
    } else if (!mappings.empty() && std::sscanf(line.c_str(), "Rss: %lld kB", &kilobytes) == 1) {
      mappings.back().resident = 1_KiB * kilobytes;
    }
  }
  return mappings;
}

}  // namespace

Bytes resident_of_objects(std::span<const void* const> addresses) {
  const std::vector<Mapping> mappings = read_mappings();
  std::set<std::string> files;
  for (const void* const address : addresses) {
    const auto place = reinterpret_cast<uintptr_t>(address);
    for (const Mapping& mapping : mappings) {
      const bool holds = mapping.begin <= place && place < mapping.end;
      if (holds && !mapping.file.empty()) files.insert(mapping.file);
    }
  }
  Bytes total;
  for (const Mapping& mapping : mappings) {
    if (files.contains(mapping.file)) total += mapping.resident;
  }
  return total;
}

}  // namespace plimsoll
