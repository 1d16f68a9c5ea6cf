#pragma once

// The processor as far as kernels and thread counts depend on it.
//
// The kernel set (which kernels, which boxes) is a function of these facts, so everything here is a
// property of the machine and of what the process may use of it, never of its load.

#include <cstdint>
#include <optional>
#include <string>

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
  friend bool operator==(const CpuInfo&, const CpuInfo&) = default;
};

// `root` as in cgroup.h (isa and affinity are always the real ones). Cache sizes that the system
// does not tell are 32 KiB and 512 KiB.
CpuInfo read_cpu_info(const std::string& root = "");

// The model of the processor in the system's words, with its family, model and stepping where they
// are told: "AMD EPYC 25.1.1"; "" where nothing is told. `root` as in cgroup.h.
std::string read_processor_name(const std::string& root = "");

}  // namespace plimsoll
