#include "backend/cpu/sequence/attention.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/sequence/attention_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {

AttentionFunctions pick_attention(Isa isa) {
  return {PLIMSOLL_PICK(isa, transpose_rows),
          PLIMSOLL_PICK(isa, merge_scores),
          PLIMSOLL_PICK(isa, rescale_rows),
          PLIMSOLL_PICK(isa, divide_row),
          PLIMSOLL_PICK(isa, gradient_of_queries),
          PLIMSOLL_PICK(isa, gradient_of_keys),
          PLIMSOLL_PICK(isa, dot_row)};
}

}  // namespace plimsoll::backend::cpu
