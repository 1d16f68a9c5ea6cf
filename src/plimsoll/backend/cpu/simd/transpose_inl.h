// Turning of small matrices in registers; part of a header of loops.

#if PLIMSOLL_LANES == 16
// to[c][r] = from[r][c] for 16 rows and `columns` of at most 16, after which zeros are written.
inline void transpose_tile(const float* from, int64_t from_row, int64_t columns, float* to,
                           int64_t to_row) {
  // Which lanes of two vectors are taken, the second's counted from 16 on: per quarter the low or
  // high numbers in turn, the low or high pairs in turn; even or odd quarters.
  constexpr Ints kLow = {0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29};
  constexpr Ints kHigh = {2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31};
  constexpr Ints kLowPairs = {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29};
  constexpr Ints kHighPairs = {2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31};
  constexpr Ints kEven = {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27};
  constexpr Ints kOdd = {4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31};
  Floats a[16];
  Floats b[16];
  for (int i = 0; i < 16; ++i) a[i] = load_first(from + i * from_row, columns);
  for (int i = 0; i < 16; i += 2) {
    b[i] = __builtin_shuffle(a[i], a[i + 1], kLow);
    b[i + 1] = __builtin_shuffle(a[i], a[i + 1], kHigh);
  }
  // a[i + c]: of rows i … i + 3, columns c, 4 + c, 8 + c and 12 + c.
  for (int i = 0; i < 16; i += 4) {
    a[i] = __builtin_shuffle(b[i], b[i + 2], kLowPairs);
    a[i + 1] = __builtin_shuffle(b[i], b[i + 2], kHighPairs);
    a[i + 2] = __builtin_shuffle(b[i + 1], b[i + 3], kLowPairs);
    a[i + 3] = __builtin_shuffle(b[i + 1], b[i + 3], kHighPairs);
  }
  for (int c = 0; c < 4; ++c) {
    const Floats even = __builtin_shuffle(a[c], a[4 + c], kEven);
    const Floats odd = __builtin_shuffle(a[c], a[4 + c], kOdd);
    const Floats even_below = __builtin_shuffle(a[8 + c], a[12 + c], kEven);
    const Floats odd_below = __builtin_shuffle(a[8 + c], a[12 + c], kOdd);
    store(to + c * to_row, __builtin_shuffle(even, even_below, kEven));
    store(to + (4 + c) * to_row, __builtin_shuffle(odd, odd_below, kEven));
    store(to + (8 + c) * to_row, __builtin_shuffle(even, even_below, kOdd));
    store(to + (12 + c) * to_row, __builtin_shuffle(odd, odd_below, kOdd));
  }
}
#elif PLIMSOLL_LANES == 8
// to[c][r] = from[r][c] for 8 rows and `columns` of at most 8, after which zeros are written.
inline void transpose_tile(const float* from, int64_t from_row, int64_t columns, float* to,
                           int64_t to_row) {
  // Which lanes of two vectors are taken, the second's counted from 8 on: per half the low or high
  // numbers in turn, the low or high pairs in turn; low or high halves.
  constexpr Ints kLow = {0, 8, 1, 9, 4, 12, 5, 13};
  constexpr Ints kHigh = {2, 10, 3, 11, 6, 14, 7, 15};
  constexpr Ints kLowPairs = {0, 1, 8, 9, 4, 5, 12, 13};
  constexpr Ints kHighPairs = {2, 3, 10, 11, 6, 7, 14, 15};
  constexpr Ints kLowHalves = {0, 1, 2, 3, 8, 9, 10, 11};
  constexpr Ints kHighHalves = {4, 5, 6, 7, 12, 13, 14, 15};
  Floats a[8];
  Floats b[8];
  for (int i = 0; i < 8; ++i) {
    a[i] = columns == 8 ? load(from + i * from_row) : load_first(from + i * from_row, columns);
  }
  for (int i = 0; i < 8; i += 2) {
    b[i] = __builtin_shuffle(a[i], a[i + 1], kLow);
    b[i + 1] = __builtin_shuffle(a[i], a[i + 1], kHigh);
  }
  // a[i + c]: of rows i … i + 3, columns c and 4 + c.
  for (int i = 0; i < 8; i += 4) {
    a[i] = __builtin_shuffle(b[i], b[i + 2], kLowPairs);
    a[i + 1] = __builtin_shuffle(b[i], b[i + 2], kHighPairs);
    a[i + 2] = __builtin_shuffle(b[i + 1], b[i + 3], kLowPairs);
    a[i + 3] = __builtin_shuffle(b[i + 1], b[i + 3], kHighPairs);
  }
  for (int c = 0; c < 4; ++c) {
    store(to + c * to_row, __builtin_shuffle(a[c], a[4 + c], kLowHalves));
    store(to + (4 + c) * to_row, __builtin_shuffle(a[c], a[4 + c], kHighHalves));
  }
}
#endif
