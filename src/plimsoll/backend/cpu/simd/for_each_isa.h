// Includes PLIMSOLL_LOOPS_HEADER once per instruction set, inside of namespaces avx512, avx2 and
// generic of plimsoll::backend::cpu, with the compiler allowed to use that set there and nowhere
// else. The header holds loops only: no includes, no static data. clang knows no such pragma; there
// the generic variant serves all.
//
// PLIMSOLL_PICK(isa, name) is then the address of the variant of function `name`.
//
// No include guard: each file of loops includes this once, after all other headers.

#include <cstdint>

#include "backend/cpu/simd/isa.h"
#include "backend/cpu/simd/lane_order.h"

#if PLIMSOLL_HAS_VARIANTS
#include <immintrin.h>

#define PLIMSOLL_LANES 16
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
namespace plimsoll::backend::cpu::avx512 {
#include "backend/cpu/simd/vectors_inl.h"
#include PLIMSOLL_LOOPS_HEADER
}  // namespace plimsoll::backend::cpu::avx512
#pragma GCC pop_options
#undef PLIMSOLL_LANES

#define PLIMSOLL_LANES 8
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
namespace plimsoll::backend::cpu::avx2 {
#include "backend/cpu/simd/vectors_inl.h"
#include PLIMSOLL_LOOPS_HEADER
}  // namespace plimsoll::backend::cpu::avx2
#pragma GCC pop_options
#undef PLIMSOLL_LANES

#define PLIMSOLL_PICK(isa, name) \
  ((isa) == Isa::kAvx512 ? &avx512::name : (isa) == Isa::kAvx2 ? &avx2::name : &generic::name)
#else
// A choice too: after a comma GCC does not find which function of a template is meant.
#define PLIMSOLL_PICK(isa, name) ((isa) == Isa::kGeneric ? &generic::name : &generic::name)
#endif

#define PLIMSOLL_LANES 4
namespace plimsoll::backend::cpu::generic {
#include "backend/cpu/simd/vectors_inl.h"
#include PLIMSOLL_LOOPS_HEADER
}  // namespace plimsoll::backend::cpu::generic
#undef PLIMSOLL_LANES
