#pragma once

// The chain through time of recurrent layers (ops/recurrent.h), for a range of samples and of
// steps.
//
// A call runs steps [first, last) in the order of running, with the state of its samples in and out
// of `h` and `c` (one row of units a sample): a sequence may be run in stretches, which gives the
// bits of one run. Samples do not depend on each other. Activations are tanh and, for gates,
// sigmoid.

#include <cstdint>

#include "backend/cpu/product/product.h"
#include "backend/cpu/simd/isa.h"

namespace plimsoll::backend::cpu {

// Rows of `width` numbers by sample and step; data nullptr: not there, or not wanted.
struct Steps {
  float* data = nullptr;
  int64_t sample = 0;  // numbers from sample to sample
  int64_t width = 0;
  float* at(int64_t b, int64_t t) const {
    return data == nullptr ? nullptr : data + b * sample + t * width;
  }
};

struct Scan {
  int64_t units = 1;
  int64_t wide = 4;  // gates · units
  int64_t steps = 1;
  bool go_backwards = false;
  MultiplyFunction multiply = nullptr;
  const float* kernel = nullptr;  // (units, wide); its transpose in the backward direction
  int64_t kernel_row = 0;         // numbers from row to row of it
  const float* bias = nullptr;    // of gru's product with h; may be null
  const uint8_t* mask = nullptr;  // (samples, steps)
  const float* before = nullptr;  // the cells (lstm) or h (gru) before `first`, backward; null: 0
  float* h = nullptr;             // the state; backward: its gradient
  float* c = nullptr;             // lstm's cells; backward: their gradient
  float* scratch = nullptr;       // scan_scratch() numbers a sample
  Steps z, saved, hidden, cells;  // hidden: gru's in the backward direction too
  Steps dy, dz, inner;            // inner: the gradient of gru's product with h

  int64_t step_at(int64_t i) const { return go_backwards ? steps - 1 - i : i; }
  bool counts(int64_t b, int64_t t) const { return mask == nullptr || mask[b * steps + t] != 0; }
};

// Numbers of scratch a sample.
constexpr int64_t scan_scratch(int64_t units, int64_t wide) { return 2 * wide + units; }

using ScanFunction = void (*)(const Scan&, int64_t begin, int64_t end, int64_t first, int64_t last);
struct ScanFunctions {
  ScanFunction forward = nullptr;
  ScanFunction backward = nullptr;
};
ScanFunctions pick_lstm(Isa isa);
ScanFunctions pick_gru(Isa isa);
ScanFunctions pick_simple_rnn(Isa isa);

}  // namespace plimsoll::backend::cpu
