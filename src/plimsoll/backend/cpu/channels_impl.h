// Loops of channels.cpp; see for_each_isa.h. Rows are all positions of all samples of a block, one
// number per channel in each. Sums run over groups of rows in order, within a group in float, and
// from group to group in double, so that their error does not grow with the block.

constexpr int64_t kGroupRows = kChannelGroupRows;

// Calls body(begin, end) for groups of rows.
template <typename Body>
inline void for_each_group(int64_t rows, const Body& body) {
  for (int64_t begin = 0; begin < rows; begin += kGroupRows) {
    body(begin, begin + kGroupRows < rows ? begin + kGroupRows : rows);
  }
}

// sums[c] = Σ x, in double.
void channel_totals(const float* x, int64_t rows, int64_t channels, float* group, double* sums) {
  for (int64_t c = 0; c < channels; ++c) sums[c] = 0.0;
  for_each_group(rows, [&](int64_t begin, int64_t end) {
    for (int64_t c = 0; c < channels; ++c) group[c] = 0.0f;
    for (int64_t row = begin; row < end; ++row) {
      const float* from = x + row * channels;
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) group[c] += from[c];
    }
    for (int64_t c = 0; c < channels; ++c) sums[c] += static_cast<double>(group[c]);
  });
}

// squares[c] = Σ (x − mean)², in double.
void channel_squares(const float* x, const float* mean, int64_t rows, int64_t channels,
                     float* group, double* squares) {
  for (int64_t c = 0; c < channels; ++c) squares[c] = 0.0;
  for_each_group(rows, [&](int64_t begin, int64_t end) {
    for (int64_t c = 0; c < channels; ++c) group[c] = 0.0f;
    for (int64_t row = begin; row < end; ++row) {
      const float* from = x + row * channels;
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) {
        const float d = from[c] - mean[c];
        group[c] += d * d;
      }
    }
    for (int64_t c = 0; c < channels; ++c) squares[c] += static_cast<double>(group[c]);
  });
}

// sums[c] = Σ dy, products[c] = Σ dy (x − mean), in double. `group` holds two numbers a channel.
void channel_products(const float* dy, const float* x, const float* mean, int64_t rows,
                      int64_t channels, float* group, double* sums, double* products) {
  float* group_sums = group;
  float* group_products = group + channels;
  for (int64_t c = 0; c < channels; ++c) sums[c] = products[c] = 0.0;
  for_each_group(rows, [&](int64_t begin, int64_t end) {
    for (int64_t c = 0; c < channels; ++c) group_sums[c] = group_products[c] = 0.0f;
    for (int64_t row = begin; row < end; ++row) {
      const float* d = dy + row * channels;
      const float* from = x + row * channels;
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) {
        group_sums[c] += d[c];
        group_products[c] += d[c] * (from[c] - mean[c]);
      }
    }
    for (int64_t c = 0; c < channels; ++c) {
      sums[c] += static_cast<double>(group_sums[c]);
      products[c] += static_cast<double>(group_products[c]);
    }
  });
}

// y = (x − mean) scale + shift.
void normalize_rows(const float* x, const float* mean, const float* scale, const float* shift,
                    int64_t channels, float* y, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * channels;
    float* to = y + row * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) to[c] = (from[c] - mean[c]) * scale[c] + shift[c];
  }
}

// dx = ((dy − mean of dy) − (x − mean) slope) scale.
void normalize_grad_rows(const float* dy, const float* x, const float* mean, const float* dy_mean,
                         const float* slope, const float* scale, int64_t channels, float* dx,
                         int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* d = dy + row * channels;
    const float* from = x + row * channels;
    float* to = dx + row * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      to[c] = ((d[c] - dy_mean[c]) - (from[c] - mean[c]) * slope[c]) * scale[c];
    }
  }
}

// y = x · scale.
void scale_rows(const float* x, const float* scale, int64_t channels, float* y, int64_t begin,
                int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * channels;
    float* to = y + row * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) to[c] = from[c] * scale[c];
  }
}

// Means over the positions of each sample, a group of positions at a time.
void mean_positions(const float* x, int64_t positions, int64_t channels, float* y, int64_t begin,
                    int64_t end) {
  for (int64_t sample = begin; sample < end; ++sample) {
    const float* from = x + sample * positions * channels;
    float* to = y + sample * channels;
    for (int64_t c = 0; c < channels; c += kLanes) {
      const int64_t lanes = channels - c < kLanes ? channels - c : kLanes;
      double total[kLanes] = {};
      for_each_group(positions, [&](int64_t first, int64_t last) {
        float group[kLanes] = {};
        for (int64_t p = first; p < last; ++p) {
          for (int64_t i = 0; i < lanes; ++i) group[i] += from[p * channels + c + i];
        }
        for (int i = 0; i < kLanes; ++i) total[i] += static_cast<double>(group[i]);
      });
      for (int64_t i = 0; i < lanes; ++i) {
        to[c + i] = static_cast<float>(total[i] / static_cast<double>(positions));
      }
    }
  }
}
// dy / positions in every position.
void spread_positions(const float* dy, int64_t positions, int64_t channels, float* dx,
                      int64_t begin, int64_t end) {
  const float count = static_cast<float>(positions);
  for (int64_t row = begin; row < end; ++row) {
    const float* from = dy + row / positions * channels;
    float* to = dx + row * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) to[c] = from[c] / count;
  }
}
