// Loops of channels.cpp; see for_each_isa.h. Rows are all positions of all samples of a block, one
// number per channel in each. Sums run over groups of rows in order, within a group in float, and
// from group to group in double, so that their error does not grow with the block. T: float, or
// uint16_t for bfloat16.

#include "backend/cpu/simd/vector_walk_inl.h"

constexpr int64_t kGroupRows = kChannelGroupRows;

// Calls body(begin, end) for groups of rows.
template <typename Body>
inline void for_each_group(int64_t rows, const Body& body) {
  for (int64_t begin = 0; begin < rows; begin += kGroupRows) {
    body(begin, begin + kGroupRows < rows ? begin + kGroupRows : rows);
  }
}

// So many rows at a time: what is held for each channel is loaded once for them.
template <int kRows>
struct Rows {
  static constexpr int kCount = kRows;
};
// body(row, Rows, vector) for the vectors of all rows, row after row in each channel; kTogether
// rows at a time, or one where that is `alone`.
template <int kTogether, typename Body>
[[gnu::always_inline]] inline void for_each_row_vector(int64_t begin, int64_t end, int64_t channels,
                                                       bool alone, const Body& body) {
  int64_t row = begin;
  for (; !alone && row + kTogether <= end; row += kTogether) {
    for_each_vector(channels, [&](auto lanes) { body(row, Rows<kTogether>{}, lanes); });
  }
  for (; row < end; ++row) {
    for_each_vector(channels, [&](auto lanes) { body(row, Rows<1>{}, lanes); });
  }
}

// Sums take two rows at a time. Reading by turns from both, processors do not read ahead well: the
// next two are asked for from front to back.
template <typename Body>
[[gnu::always_inline]] inline void for_each_summed_vector(int64_t begin, int64_t end,
                                                          int64_t channels, const Body& body) {
  for_each_row_vector<2>(begin, end, channels, false, body);
}
template <typename T, typename Rows, typename Lanes>
[[gnu::always_inline]] inline void ask_for_next(const T* row, int64_t channels, Rows, Lanes lanes) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  const T* next = row + Rows::kCount * (channels + lanes.at);
  for (int64_t i = 0; i < Rows::kCount * kLanes; i += kLine) __builtin_prefetch(next + i);
}

// Maps take four rows of few channels at a time, which lie side by side, else one.
constexpr int64_t kFewChannels = 64;
template <typename Body>
[[gnu::always_inline]] inline void for_each_mapped_vector(int64_t begin, int64_t end,
                                                          int64_t channels, const Body& body) {
  for_each_row_vector<4>(begin, end, channels, channels > kFewChannels, body);
}
template <typename Lanes, typename T>
[[gnu::always_inline]] inline Floats get_ahead(Lanes lanes, const T* from) {
  constexpr int64_t kBytes = 2048;
  __builtin_prefetch(from + lanes.at + kBytes / static_cast<int64_t>(sizeof(T)));
  return lanes.get(from);
}

// sums[c] = Σ x, in double.
template <typename T>
void channel_totals(const T* x, int64_t rows, int64_t channels, float* group, double* sums) {
  for (int64_t c = 0; c < channels; ++c) sums[c] = 0.0;
  for_each_group(rows, [&](int64_t begin, int64_t end) {
    for (int64_t c = 0; c < channels; ++c) group[c] = 0.0f;
    for_each_summed_vector(begin, end, channels, [&](int64_t row, auto some, auto lanes) {
      ask_for_next(x + row * channels, channels, some, lanes);
      Floats sum = lanes.get(group);
      for (int r = 0; r < some.kCount; ++r) sum += lanes.get(x + (row + r) * channels);
      lanes.put(group, sum);
    });
    for (int64_t c = 0; c < channels; ++c) sums[c] += static_cast<double>(group[c]);
  });
}

// squares[c] = Σ (x − mean)², in double.
template <typename T>
void channel_squares(const T* x, const float* mean, int64_t rows, int64_t channels, float* group,
                     double* squares) {
  for (int64_t c = 0; c < channels; ++c) squares[c] = 0.0;
  for_each_group(rows, [&](int64_t begin, int64_t end) {
    for (int64_t c = 0; c < channels; ++c) group[c] = 0.0f;
    for_each_summed_vector(begin, end, channels, [&](int64_t row, auto some, auto lanes) {
      ask_for_next(x + row * channels, channels, some, lanes);
      const Floats middle = lanes.get(mean);
      Floats sum = lanes.get(group);
      for (int r = 0; r < some.kCount; ++r) {
        const Floats d = lanes.get(x + (row + r) * channels) - middle;
        sum += d * d;
      }
      lanes.put(group, sum);
    });
    for (int64_t c = 0; c < channels; ++c) squares[c] += static_cast<double>(group[c]);
  });
}

// sums[c] = Σ dy, products[c] = Σ dy (x − mean), in double. `group` holds two numbers a channel.
template <typename T>
void channel_products(const T* dy, const T* x, const float* mean, int64_t rows, int64_t channels,
                      float* group, double* sums, double* products) {
  float* group_sums = group;
  float* group_products = group + channels;
  for (int64_t c = 0; c < channels; ++c) sums[c] = products[c] = 0.0;
  for_each_group(rows, [&](int64_t begin, int64_t end) {
    for (int64_t c = 0; c < channels; ++c) group_sums[c] = group_products[c] = 0.0f;
    for_each_summed_vector(begin, end, channels, [&](int64_t row, auto some, auto lanes) {
      ask_for_next(dy + row * channels, channels, some, lanes);
      ask_for_next(x + row * channels, channels, some, lanes);
      const Floats middle = lanes.get(mean);
      Floats sum = lanes.get(group_sums);
      Floats product = lanes.get(group_products);
      for (int r = 0; r < some.kCount; ++r) {
        const Floats d = lanes.get(dy + (row + r) * channels);
        sum += d;
        product += d * (lanes.get(x + (row + r) * channels) - middle);
      }
      lanes.put(group_sums, sum);
      lanes.put(group_products, product);
    });
    for (int64_t c = 0; c < channels; ++c) {
      sums[c] += static_cast<double>(group_sums[c]);
      products[c] += static_cast<double>(group_products[c]);
    }
  });
}

// y = (x − mean) scale + shift.
template <typename T>
void normalize_rows(const T* x, const float* mean, const float* scale, const float* shift,
                    int64_t channels, T* y, int64_t begin, int64_t end) {
  for_each_mapped_vector(begin, end, channels, [&](int64_t row, auto some, auto lanes) {
    const Floats middle = lanes.get(mean), factor = lanes.get(scale), added = lanes.get(shift);
    for (int r = 0; r < some.kCount; ++r) {
      const int64_t at = (row + r) * channels;
      lanes.put(y + at, (get_ahead(lanes, x + at) - middle) * factor + added);
    }
  });
}

// dx = ((dy − mean of dy) − (x − mean) slope) scale.
template <typename T>
void normalize_grad_rows(const T* dy, const T* x, const float* mean, const float* dy_mean,
                         const float* slope, const float* scale, int64_t channels, T* dx,
                         int64_t begin, int64_t end) {
  for_each_mapped_vector(begin, end, channels, [&](int64_t row, auto some, auto lanes) {
    const Floats middle = lanes.get(mean), dy_middle = lanes.get(dy_mean);
    const Floats inner = lanes.get(slope), outer = lanes.get(scale);
    for (int r = 0; r < some.kCount; ++r) {
      const int64_t at = (row + r) * channels;
      const Floats rest = (get_ahead(lanes, x + at) - middle) * inner;
      lanes.put(dx + at, ((get_ahead(lanes, dy + at) - dy_middle) - rest) * outer);
    }
  });
}

// y = x · scale.
template <typename T>
void scale_rows(const T* x, const float* scale, int64_t channels, T* y, int64_t begin,
                int64_t end) {
  for_each_mapped_vector(begin, end, channels, [&](int64_t row, auto some, auto lanes) {
    const Floats factor = lanes.get(scale);
    for (int r = 0; r < some.kCount; ++r) {
      const int64_t at = (row + r) * channels;
      lanes.put(y + at, get_ahead(lanes, x + at) * factor);
    }
  });
}

// Means over the positions of a sample, of channels [begin, end), a group of positions at a time.
template <typename T>
void mean_positions(const T* x, int64_t positions, int64_t channels, T* y, int64_t begin,
                    int64_t end) {
  // So many vectors at a time: what lies side by side is read together.
  constexpr int kVectors = 64 / kLanes < 4 ? 4 : 64 / kLanes;
  const auto put_means = [&]<int kCount>(auto lanes) {
    double total[kCount * kLanes] = {};
    for_each_group(positions, [&](int64_t first, int64_t last) {
      Floats group[kCount] = {};
      for (int64_t p = first; p < last; ++p) {
#pragma GCC unroll 16
        for (int v = 0; v < kCount; ++v) group[v] += lanes.get(x + p * channels + v * kLanes);
      }
      float numbers[kCount * kLanes];
      for (int v = 0; v < kCount; ++v) store(numbers + v * kLanes, group[v]);
      for (int i = 0; i < kCount * kLanes; ++i) total[i] += static_cast<double>(numbers[i]);
    });
    float means[kCount * kLanes];
    for (int i = 0; i < kCount * kLanes; ++i) {
      means[i] = static_cast<float>(total[i] / static_cast<double>(positions));
    }
    for (int v = 0; v < kCount; ++v) lanes.put(y + v * kLanes, load(means + v * kLanes));
  };
  int64_t c = begin;
  for (; c + kVectors * kLanes <= end; c += kVectors * kLanes) {
    put_means.template operator()<kVectors>(WholeVector{c});
  }
  for (; c + kLanes <= end; c += kLanes) put_means.template operator()<1>(WholeVector{c});
  if (c < end) put_means.template operator()<1>(PartVector{c, end - c});
}
// dy / positions in every position.
template <typename T>
void spread_positions(const T* dy, int64_t positions, int64_t channels, T* dx, int64_t begin,
                      int64_t end) {
  const float count = static_cast<float>(positions);
  for (int64_t row = begin; row < end; ++row) {
    const T* from = dy + row / positions * channels;
    T* to = dx + row * channels;
    for_each_vector(channels, [&](auto lanes) { lanes.put(to, lanes.get(from) / count); });
  }
}
