#include "backend/cpu/sequence/scan.h"

#include <cstring>

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/sequence/scan_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {

ScanFunctions pick_lstm(Isa isa) {
  return {PLIMSOLL_PICK(isa, lstm_forward), PLIMSOLL_PICK(isa, lstm_backward)};
}
ScanFunctions pick_gru(Isa isa) {
  return {PLIMSOLL_PICK(isa, gru_forward), PLIMSOLL_PICK(isa, gru_backward)};
}
ScanFunctions pick_simple_rnn(Isa isa) {
  return {PLIMSOLL_PICK(isa, simple_rnn_forward), PLIMSOLL_PICK(isa, simple_rnn_backward)};
}

}  // namespace plimsoll::backend::cpu
