#pragma once

// Products of small matrices that lie in a cache: what recurrent layers and attention are made of.
//
//   y[r][c] (+)= Σ_k x[r · x_row + k · x_step] · w[k · w_row + c]
//
// Every element is one chain of multiply-adds over k in rising order, whatever the other rows and
// columns are: a row's bits do not depend on how rows are grouped or shared out. One thread
// computes it; nothing is packed. Large products are the vendor's business.

#include <cstdint>

#include "backend/cpu/simd/isa.h"
#include "base/ceil_div.h"

namespace plimsoll::backend::cpu {

struct Product {
  int64_t rows = 0, inner = 0, columns = 0;
  const float* x = nullptr;
  int64_t x_row = 0, x_step = 1;
  const float* w = nullptr;
  int64_t w_row = 0;
  float* y = nullptr;
  int64_t y_row = 0;
  bool add = false;  // to what y holds
};

// How far apart rows of so many columns lie in scratch: an odd number of cache lines, or the rows
// of a panel would meet in few places of the first cache.
constexpr int64_t spread_row(int64_t columns) {
  constexpr int64_t kLineFloats = 16;
  return (ceil_div(columns, kLineFloats) | 1) * kLineFloats;
}

using MultiplyFunction = void (*)(const Product&);
MultiplyFunction pick_multiply(Isa isa);

}  // namespace plimsoll::backend::cpu
