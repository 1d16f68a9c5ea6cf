#include "base/cpu.h"

#include <sched.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/cgroup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxFileBytes = 4096;

#if defined(__x86_64__)
// Whether the processor has tiles of bfloat16 and the system lets this process use them, which has
// to be asked for: their state is large.
bool may_use_tiles() {
  constexpr unsigned kFeatures = 7, kBf16 = 1u << 22, kTiles = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kBf16) == 0 || (d & kTiles) == 0) return false;
  constexpr long kAskForPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return ::syscall(SYS_arch_prctl, kAskForPermission, kTileData) == 0;
}
#endif

std::string find_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) {
    return may_use_tiles() ? "avx512_amx" : "avx512_bf16";
  }
  if (avx512) return "avx512";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2";
  return "sse2";
#elif defined(__aarch64__)
  constexpr unsigned long kBf16 = 1ul << 14;  // HWCAP2_BF16
  return (::getauxval(AT_HWCAP2) & kBf16) != 0 ? "neon_bf16" : "neon";
#else
  return "generic";
#endif
}

int count_allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  // More processors than the fixed mask holds.
  return std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

std::string read_word(const std::string& path) {
  if (::access(path.c_str(), R_OK) != 0) return "";
  try {
    std::string text = read_text_file(path, kMaxFileBytes);
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
  } catch (const Error&) {
    return "";
  }
}

// sysfs writes "1024K"; "" and anything odd count as not told.
Bytes parse_cache_size(std::string_view text) {
  int64_t value = 0;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9' && value < (1 << 30)) {
    value = value * 10 + (text.front() - '0');
    text.remove_prefix(1);
  }
  if (text == "K") return Bytes(value << 10);
  if (text == "M") return Bytes(value << 20);
  return text.empty() ? Bytes(value) : Bytes(0);
}

void read_caches(const std::string& root, CpuInfo& info) {
  constexpr int kMaxCaches = 8;
  for (int i = 0; i < kMaxCaches; ++i) {
    const std::string folder =
        fmt::format("{}/sys/devices/system/cpu/cpu0/cache/index{}/", root, i);
    const std::string level = read_word(folder + "level");
    if (level.empty()) break;
    if (read_word(folder + "type") == "Instruction") continue;
    const Bytes size = parse_cache_size(read_word(folder + "size"));
    if (level == "1") info.l1d_bytes = size;
    if (level == "2") info.l2_bytes = size;
    if (level == "3") info.l3_bytes = size;
  }
  if (info.l1d_bytes <= Bytes(0)) info.l1d_bytes = 32_KiB;
  if (info.l2_bytes <= Bytes(0)) info.l2_bytes = 512_KiB;
}

}  // namespace

CpuInfo read_cpu_info(const std::string& root) {
  CpuInfo info;
  info.isa = find_isa();
  info.allowed_cpus = count_allowed_cpus();
  info.cpu_quota = read_cgroup_cpu_quota(root);
  info.default_threads = info.allowed_cpus;
  if (info.cpu_quota) {
    const double granted = std::ceil(*info.cpu_quota);
    if (granted < info.allowed_cpus) info.default_threads = std::max(1, static_cast<int>(granted));
  }
  read_caches(root, info);
  if (const char* other = std::getenv("PLIMSOLL_PROCESSOR"); other != nullptr && *other != '\0') {
    force_processor(info, other);
  }
  return info;
}

std::vector<std::string> instruction_sets_of(const std::string& isa) {
  static const std::vector<std::string> kX86 = {"generic", "sse2",        "avx2",
                                                "avx512",  "avx512_bf16", "avx512_amx"};
  static const std::vector<std::string> kArm = {"generic", "neon", "neon_bf16"};
  const std::vector<std::string>& all = isa.starts_with("neon") ? kArm : kX86;
  const auto last = std::find(all.begin(), all.end(), isa);
  return last == all.end() ? std::vector<std::string>{isa}
                           : std::vector<std::string>(all.begin(), last + 1);
}

void force_processor(CpuInfo& info, const std::string& text) {
  const auto refuse = [&](const std::string& expected, const std::string& received) {
    throw Error(ErrorKind::kConfig, "PLIMSOLL_PROCESSOR: expected " + expected + ", received " +
                                        received + ". Write it as in avx2/l2=512K/l3=32768K.");
  };
  const std::vector<std::string> sets = instruction_sets_of(info.isa);
  size_t at = 0;
  while (at <= text.size()) {
    const size_t end = std::min(text.find('/', at), text.size());
    const std::string word = text.substr(at, end - at);
    const size_t equals = word.find('=');
    if (at == 0) {
      if (std::find(sets.begin(), sets.end(), word) == sets.end()) {
        std::string all;
        for (const std::string& set : sets) all += (all.empty() ? "" : ", ") + set;
        refuse("an instruction set that this processor has (" + all + ")", word);
      }
      info.isa = word;
    } else {
      const std::string name = word.substr(0, equals);
      const Bytes size = equals == word.npos
                             ? Bytes(0)
                             : parse_cache_size(std::string_view(word).substr(equals + 1));
      if (size <= Bytes(0)) refuse("a cache size such as l2=512K", word);
      if (name != "l1" && name != "l2" && name != "l3") refuse("l1, l2 or l3", name);
      (name == "l1" ? info.l1d_bytes : name == "l2" ? info.l2_bytes : info.l3_bytes) = size;
    }
    at = end + 1;
  }
  info.forced = true;
}

std::string read_processor_name(const std::string& root) {
  const std::string path = root + "/proc/cpuinfo";
  if (::access(path.c_str(), R_OK) != 0) return "";
  std::string text(kMaxFileBytes, '\0');
  try {
    text.resize(File::open_read(path).read_some_at(0, std::as_writable_bytes(std::span(text))));
  } catch (const Error&) {
    return "";
  }
  // What is said of the first processor.
  const auto find = [&](std::string_view name) {
    size_t at = 0;
    while (at < text.size()) {
      const std::string_view rest = std::string_view(text).substr(at);
      const std::string_view line = rest.substr(0, rest.find('\n'));
      const size_t colon = line.find(": ");
      const size_t end = line.find_last_not_of(" \t", line.find(':') - 1);
      if (line.empty()) break;
      if (colon != line.npos && line.substr(0, end + 1) == name) {
        return std::string(line.substr(colon + 2));
      }
      at += line.size() + 1;
    }
    return std::string();
  };
  const std::string name = find("model name");
  const std::string family = find("cpu family");
  if (!family.empty()) {
    return name + " " + family + "." + find("model") + "." + find("stepping");
  }
  const std::string part = find("CPU part");
  if (part.empty()) return name;
  return find("CPU implementer") + " " + part + " " + find("CPU variant") + " " +
         find("CPU revision");
}

}  // namespace plimsoll
