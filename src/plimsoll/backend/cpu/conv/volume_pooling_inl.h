// Loops of volume_pooling.cpp; see for_each_isa.h. VolumePooling says where windows lie.

// best: the larger of both; a NaN wins.
inline void take_larger(const float* x, int64_t count, float* best) {
#pragma omp simd
  for (int64_t c = 0; c < count; ++c) {
    const bool wins = (x[c] > best[c]) | ((x[c] != x[c]) & (best[c] == best[c]));
    best[c] = wins ? x[c] : best[c];
  }
}

// Sets the bit where x is the maximum.
inline void mark_equal(const float* x, const float* best, int64_t count, int bit,
                       uint8_t* winners) {
#pragma omp simd
  for (int64_t c = 0; c < count; ++c) {
    const int wins = (x[c] == best[c]) | ((x[c] != x[c]) & (best[c] != best[c]));
    winners[c] = static_cast<uint8_t>(winners[c] | (wins << bit));
  }
}

inline void add_marked(const float* dy, const uint8_t* winners, int64_t count, int bit, float* dx) {
#pragma omp simd
  for (int64_t c = 0; c < count; ++c) {
    const bool wins = ((winners[c] >> bit) & 1) != 0;
    dx[c] += wins ? dy[c] : 0.0f;
  }
}

// Rows [begin, end) of the output, of all slabs of all volumes. An output that nobody reads is
// null.
inline void max_volume_rows(const VolumePooling& p, const float* x, float* y, uint8_t* winners,
                            int64_t begin, int64_t end) {
  constexpr int64_t kTogether = 256;
  float best[kTogether];
  const int64_t columns = p.windows.columns().output;
  const int64_t bytes = p.winner_bytes() * p.channels;
  for (int64_t at = begin * columns; at < end * columns; ++at) {
    uint8_t* marks = winners == nullptr ? nullptr : winners + at * bytes;
    if (marks != nullptr) std::memset(marks, 0, static_cast<size_t>(bytes));
    for (int64_t c = 0; c < p.channels; c += kTogether) {
      const int64_t count = p.channels - c < kTogether ? p.channels - c : kTogether;
      bool first = true;
      p.for_each_tap(at, [&](int64_t, int64_t offset) {
        const float* from = x + offset + c;
        if (first) {
          std::memcpy(best, from, static_cast<size_t>(count) * sizeof(float));
          first = false;
        } else {
          take_larger(from, count, best);
        }
      });
      if (y != nullptr) {
        std::memcpy(y + at * p.channels + c, best, static_cast<size_t>(count) * sizeof(float));
      }
      if (marks == nullptr) continue;
      p.for_each_tap(at, [&](int64_t tap, int64_t offset) {
        mark_equal(x + offset + c, best, count, static_cast<int>(tap % 8),
                   marks + tap / 8 * p.channels + c);
      });
    }
  }
}

// What the outputs [begin, end) give to the inputs under them.
inline void add_volume_gradients(const VolumePooling& p, const float* dy, const uint8_t* winners,
                                 float* dx, int64_t begin, int64_t end) {
  const int64_t bytes = p.winner_bytes() * p.channels;
  for (int64_t at = begin; at < end; ++at) {
    p.for_each_tap(at, [&](int64_t tap, int64_t offset) {
      add_marked(dy + at * p.channels, winners + at * bytes + tap / 8 * p.channels, p.channels,
                 static_cast<int>(tap % 8), dx + offset);
    });
  }
}
