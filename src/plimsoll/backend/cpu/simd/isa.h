#pragma once

// Which of the compiled variants of our loops runs.
//
// The loops are plain C++ that the compiler vectorizes, compiled once per instruction set
// (for_each_isa.h). The choice is part of the kernel set: other widths of partial sums, other bits.

#include <cstdint>
#include <string_view>

namespace plimsoll::backend::cpu {

enum class Isa { kGeneric, kAvx2, kAvx512 };

// Whether there are such variants; with other compilers the generic one serves all.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define PLIMSOLL_HAS_VARIANTS 1
#else
#define PLIMSOLL_HAS_VARIANTS 0
#endif
inline constexpr bool kHasVariants = PLIMSOLL_HAS_VARIANTS == 1;

// From CpuInfo::isa; what we have no variant for is kGeneric.
constexpr Isa isa_of(std::string_view cpu_isa) {
  if (cpu_isa.starts_with("avx512")) return Isa::kAvx512;
  return cpu_isa == "avx2" ? Isa::kAvx2 : Isa::kGeneric;
}

// Whether it multiplies bfloat16 numbers in pairs, and has tiles that sum such products.
constexpr bool has_tiles(std::string_view cpu_isa) { return cpu_isa == "avx512_amx"; }
constexpr bool has_pairs(std::string_view cpu_isa) {
  return cpu_isa == "avx512_bf16" || has_tiles(cpu_isa);
}

// Floats of one vector.
constexpr int64_t lanes_of(Isa isa) { return isa == Isa::kAvx512 ? 16 : isa == Isa::kAvx2 ? 8 : 4; }

}  // namespace plimsoll::backend::cpu
