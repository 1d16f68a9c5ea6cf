// Loops of transposed_dense.cpp; see for_each_isa.h.

#include "backend/cpu/simd/transpose_inl.h"

// to[c][r] = from[r][c].
void transpose_panel(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
                     int64_t to_row) {
  int64_t whole_rows = 0;
  int64_t whole_columns = 0;
#if PLIMSOLL_LANES == 16
  whole_rows = rows / kLanes * kLanes;
  whole_columns = columns / kLanes * kLanes;
  for (int64_t r = 0; r < whole_rows; r += kLanes) {
    for (int64_t c = 0; c < whole_columns; c += kLanes) {
      transpose_tile(from + r * from_row + c, from_row, kLanes, to + c * to_row + r, to_row);
    }
  }
#endif
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      to[c * to_row + r] = from[r * from_row + c];
    }
  }
}
