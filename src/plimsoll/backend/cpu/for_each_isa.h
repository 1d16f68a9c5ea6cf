// Includes PLIMSOLL_LOOPS_HEADER once per instruction set, inside of namespaces avx512, avx2 and
// generic of plimsoll::backend::cpu, with the compiler allowed to use that set there and nowhere
// else. The header holds loops only: no includes, no statics. clang knows no such pragma; there
// the generic variant serves all.
//
// No include guard: each file of loops includes this once.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define PLIMSOLL_HAS_ISA_VARIANTS 1
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
namespace plimsoll::backend::cpu::avx512 {
#include PLIMSOLL_LOOPS_HEADER
}  // namespace plimsoll::backend::cpu::avx512
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
namespace plimsoll::backend::cpu::avx2 {
#include PLIMSOLL_LOOPS_HEADER
}  // namespace plimsoll::backend::cpu::avx2
#pragma GCC pop_options
#endif

namespace plimsoll::backend::cpu::generic {
#include PLIMSOLL_LOOPS_HEADER
}  // namespace plimsoll::backend::cpu::generic

namespace plimsoll::backend::cpu {
// The variant of a function that every variant's namespace defines.
#if defined(PLIMSOLL_HAS_ISA_VARIANTS)
#define PLIMSOLL_PICK(isa, name) \
  ((isa) == Isa::kAvx512 ? &avx512::name : (isa) == Isa::kAvx2 ? &avx2::name : &generic::name)
#else
#define PLIMSOLL_PICK(isa, name) (static_cast<void>(isa), &generic::name)
#endif
}  // namespace plimsoll::backend::cpu
