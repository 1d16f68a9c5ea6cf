// The pooling of conv_pool.cpp's loops; part of a header of loops.

// A convolution's rows, `columns` × channels each, to pooled rows [0, rows). Either output may be
// null; a winner that ReLU stops is `taps`.
void pool_conv_rows(const PatchShape& s, bool relu, const float* x, int64_t x_row, int64_t rows,
                    int64_t columns, float* y, uint8_t* winners) {
  const int64_t channels = s.filters;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const float* corner = x + row * s.pool_rows * x_row + column * s.pool_columns * channels;
      const int64_t at = (row * columns + column) * channels;
      int64_t c = 0;
      for (; c + kLanes <= channels; c += kLanes) {
        Floats best = load(corner + c);
        Ints winner = {};
        for (int64_t t = 1; t < s.taps; ++t) {
          const Floats v =
              load(corner + t / s.pool_columns * x_row + t % s.pool_columns * channels + c);
          const Ints wins = (v > best) | ((v != v) & (best == best));
          best = wins ? v : best;
          winner = wins ? Ints{} + static_cast<int32_t>(t) : winner;
        }
        if (relu) winner = best > 0.0f ? winner : Ints{} + static_cast<int32_t>(s.taps);
        if (y != nullptr) store(y + at + c, best);
        if (winners != nullptr) store_winners(winners + at + c, winner);
      }
      for (; c < channels; ++c) {
        float best = corner[c];
        int64_t winner = 0;
        for (int64_t t = 1; t < s.taps; ++t) {
          const float v = corner[t / s.pool_columns * x_row + t % s.pool_columns * channels + c];
          if (v > best || (v != v && best == best)) {
            best = v;
            winner = t;
          }
        }
        if (y != nullptr) y[at + c] = best;
        if (winners != nullptr) {
          winners[at + c] = static_cast<uint8_t>(!relu || best > 0.0f ? winner : s.taps);
        }
      }
    }
  }
}
