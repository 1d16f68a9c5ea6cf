#pragma once

// The processor as far as kernels and thread counts depend on it.
//
// The kernel set (which kernels, which blocks) is a function of these facts, so everything here is
// a property of the machine and of what the process may use of it, never of its load.
//
// PLIMSOLL_PROCESSOR in the environment lets a machine compute as another one does:
// "avx2/l2=512K/l3=32768K", as a kernel set's id spells it. The instruction set must be one that
// this processor has; cache sizes that are not named stay the machine's own. It makes results of
// another machine repeatable here, and lets tests run as on other processors.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace plimsoll {

struct CpuInfo {
  // The widest vector extension: "avx512_amx" (with bfloat16 in pairs and in tiles), "avx512_bf16"
  // (in pairs), "avx512", "avx2", "sse2", "neon_bf16", "neon" or "generic".
  std::string isa;
  int allowed_cpus = 1;             // by the affinity mask, so by cpusets and taskset
  std::optional<double> cpu_quota;  // processors' worth of time a control group grants
  int default_threads = 1;          // allowed_cpus, or the quota rounded up where that is less
  Bytes l1d_bytes;                  // of one core
  Bytes l2_bytes;                   // of one core
  Bytes l3_bytes;                   // of one cluster; 0 where there is none or none is told
  bool forced = false;              // by PLIMSOLL_PROCESSOR, so below what the processor has
  friend bool operator==(const CpuInfo&, const CpuInfo&) = default;
};

// `root` as in cgroup.h (isa and affinity are always the real ones). Cache sizes that the system
// does not tell are 32 KiB and 512 KiB.
// Throws kConfig where PLIMSOLL_PROCESSOR names what this processor has not.
CpuInfo read_cpu_info(const std::string& root = "");

// Takes what `text` says ("avx2/l2=512K/l3=32768K") in place of what `info` has. Throws kConfig.
void force_processor(CpuInfo& info, const std::string& text);
// The instruction sets that this processor has, in the words of CpuInfo::isa, least first.
std::vector<std::string> instruction_sets_of(const std::string& isa);

// The model of the processor in the system's words, with its family, model and stepping where they
// are told: "AMD EPYC 25.1.1"; "" where nothing is told. `root` as in cgroup.h.
std::string read_processor_name(const std::string& root = "");

}  // namespace plimsoll
