#pragma once

// What a run touched of its arena, against what the plan says it may touch.
//
// A page must be in memory when an instance of a program that ran, or a state variable, has bytes
// in it; it may be when scratch has. Any other resident page was touched by mistake. Meaningful on
// an arena that nothing but these runs has touched.

#include <cstdint>
#include <span>

#include "exec/executor.h"

namespace plimsoll::exec {

struct TouchedPages {
  int64_t resident = 0;   // in memory
  int64_t expected = 0;   // must be
  int64_t missing = 0;    // must be and are not
  int64_t unplanned = 0;  // are and may not be
  friend bool operator==(const TouchedPages&, const TouchedPages&) = default;
};

// `ran`: positions of the programs that ran. Throws kIo.
TouchedPages measure_touched(const Executor& executor, const plan::Plan& plan,
                             std::span<const size_t> ran);

// Bytes of the pages that must be in memory once programs `ran` have run.
Bytes values_bytes(const plan::Plan& plan, std::span<const size_t> ran);

}  // namespace plimsoll::exec
