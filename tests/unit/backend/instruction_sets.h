#pragma once

#include <vector>

#include "backend/cpu/simd/isa.h"
#include "base/cpu.h"

namespace plimsoll::backend::cpu {

// Those that loops are made for and this processor has.
inline std::vector<Isa> instruction_sets() {
  const Isa most = isa_of(read_cpu_info().isa);
  std::vector<Isa> sets = {Isa::kGeneric};
  if (most != Isa::kGeneric) sets.push_back(Isa::kAvx2);
  if (most == Isa::kAvx512) sets.push_back(most);
  return sets;
}

}  // namespace plimsoll::backend::cpu
