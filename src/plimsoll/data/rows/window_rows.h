#pragma once

// Windows over a series: samples that overlap, read from rows that do not.
//
//   rows     0 1 2 3 4 5 6 7 …        window 4, stride 2, horizon 1
//   x        [0 1 2 3] [2 3 4 5] …
//   y, next        4         6  …     the row `horizon` after the window's last
//   y, shifted [1 2 3 4] [3 4 5 6] …  a target for every row of the window

#include <cstdint>
#include <memory>
#include <vector>

#include "data/rows/row_source.h"

namespace plimsoll::data {

struct WindowPlan {
  int64_t window = 1;
  int64_t stride = 1;
  int64_t horizon = 1;
  friend bool operator==(const WindowPlan&, const WindowPlan&) = default;
};

// Samples that a series of that many rows gives: those whose target is inside of it.
int64_t window_count(const WindowPlan& plan, int64_t rows);

// Rows [i × stride + offset, … + length) of the series as sample i of `count`; a length of 0 is the
// one row there, without an axis of its own. The series' buffers count in this view with
// `counts_series`.
std::unique_ptr<RowSource> window_rows(std::shared_ptr<RowSource> series, int64_t count,
                                       int64_t stride, int64_t offset, int64_t length,
                                       bool counts_series);

}  // namespace plimsoll::data
