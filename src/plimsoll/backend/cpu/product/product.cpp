#include "backend/cpu/product/product.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/product/product_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {

MultiplyFunction pick_multiply(Isa isa) { return PLIMSOLL_PICK(isa, multiply); }

}  // namespace plimsoll::backend::cpu
