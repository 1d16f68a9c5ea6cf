// Loops of column_sums.cpp; see for_each_isa.h.

constexpr int kSumLanes = 64;

// Up to kSumLanes columns from `column` on.
template <int kLanes>
inline void sum_columns(const float* values, int64_t rows, int64_t columns, int64_t column,
                        int64_t width, float* sums, bool add) {
  constexpr int64_t kGroup = 256;
  float total[kSumLanes] = {};
  const int64_t lanes = kLanes > 0 ? kLanes : width;
  for (int64_t group = 0; group < rows; group += kGroup) {
    const int64_t end = group + kGroup < rows ? group + kGroup : rows;
    float part[kSumLanes] = {};
    for (int64_t row = group; row < end; ++row) {
      const float* from = values + row * columns + column;
      for (int64_t i = 0; i < lanes; ++i) part[i] += from[i];
    }
    for (int64_t i = 0; i < lanes; ++i) total[i] += part[i];
  }
  for (int64_t i = 0; i < lanes; ++i) {
    sums[column + i] = add ? sums[column + i] + total[i] : total[i];
  }
}

void column_sums(const float* values, int64_t rows, int64_t columns, int64_t begin, int64_t end,
                 float* sums, bool add) {
  int64_t column = begin;
  for (; column + 64 <= end; column += 64) {
    sum_columns<64>(values, rows, columns, column, 64, sums, add);
  }
  for (; column + 16 <= end; column += 16) {
    sum_columns<16>(values, rows, columns, column, 16, sums, add);
  }
  if (column < end) sum_columns<0>(values, rows, columns, column, end - column, sums, add);
}
