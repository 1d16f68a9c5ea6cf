// Any bytes as the kernel's files: maps, smaps, the log, and those of a process and of groups.

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "watch/capture.h"
#include "watch/measure/copies.h"
#include "watch/measure/group.h"
#include "watch/measure/kernel_log.h"
#include "watch/measure/process.h"

namespace {

using namespace plimsoll::watch;

void require(bool holds) {
  if (!holds) std::abort();
}

// A system of files in memory, all of one content.
struct FakeSystem {
  std::string root = "/dev/shm/plimsoll_fuzz_" + std::to_string(::getpid());
  std::array<std::string, 7> files = {"proc/7/stat",         "proc/7/status", "proc/7/io",
                                      "proc/7/smaps_rollup", "proc/7/limits", "proc/self/cgroup",
                                      "proc/vmstat"};
  FakeSystem() {
    for (const char* folder : {"proc/7", "proc/self"}) {
      std::filesystem::create_directories(root + "/" + folder);
    }
  }
  ~FakeSystem() { std::filesystem::remove_all(root); }
  void write(std::string_view bytes) const {
    for (const std::string& file : files) {
      std::ofstream(root + "/" + file, std::ios::binary) << bytes;
    }
  }
};

void read_lines(std::string_view bytes) {
  MapReader maps;
  CopyFinder copies;
  std::vector<OomRecord> records;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    const std::string_view line = bytes.substr(at, end - at);
    maps.line(line);
    copies.line(line);
    read_oom_record(line, records);
    at = end + 1;
  }
  Capture capture;
  maps.finish(capture.kinds, capture.mappings);
  require(capture.mappings.size() <= Capture::kMostRows);
  // Memory whose bytes follow from their address; none in every fourth region.
  const auto peek = [](uint64_t address, void* into, size_t length) -> size_t {
    if ((address >> 28) % 4 == 3) return 0;
    auto* out = static_cast<uint8_t*>(into);
    for (size_t i = 0; i < length; ++i) {
      out[i] = static_cast<uint8_t>(((address + i) >> 3) * 0x9e3779b97f4a7c15u >> 56);
    }
    return length;
  };
  copies.look(peek, 1);
  require(copies.found().times() >= 0 && copies.found().total_bytes() >= 0);
  for (const OomRecord& record : records) {
    for (const char c : record.text) require(static_cast<uint8_t>(c) >= 0x20);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_lines(bytes);
  static const FakeSystem system;
  system.write(bytes);
  ProcessReader reader(system.root);
  reader.read(7);
  reader.read_memory(7);
  reader.proportional(7);
  reader.file_limit(7);
  reader.address_space_limit(7);
  with_descendants(reader.links(), {7});
  read_ancestors(system.root);
  machine_oom_kills(system.root);
  return 0;
}
