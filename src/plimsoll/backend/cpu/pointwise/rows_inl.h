// Loops of rows.cpp; see for_each_isa.h. One row of numbers at a time.

#include "backend/cpu/simd/functions_inl.h"

// The largest of a row; what is no number is not looked at.
inline float largest_of(const float* x, int64_t count) {
  const Floats least = broadcast(-__builtin_inff());
  Floats most = least;
  for_each_vector(count, [&](auto lanes) {
    const Floats v = lanes.get(x, least);
    most = choose(v > most, v, most);
  });
  return largest_lane(most);
}

inline float exponential_sum(const float* x, float most, int64_t count) {
  const Floats nothing = broadcast(-__builtin_inff());
  return sum_over(count, [&](auto lanes) { return exp_negative(lanes.get(x, nothing) - most); });
}

void softmax_row(const float* x, float* y, int64_t count) {
  const float most = largest_of(x, count);
  const float inverse = 1.0f / exponential_sum(x, most, count);
  for_each_vector(count,
                  [&](auto lanes) { lanes.put(y, exp_negative(lanes.get(x) - most) * inverse); });
}

void softmax_grad_row(const float* dy, const float* y, float* dx, int64_t count) {
  const float dot = sum_over(count, [&](auto lanes) { return lanes.get(dy) * lanes.get(y); });
  for_each_vector(count, [&](auto lanes) { lanes.put(dx, (lanes.get(dy) - dot) * lanes.get(y)); });
}

// The largest, and the sum of exponentials from there.
void log_sum_row(const float* x, int64_t count, float* pair) {
  pair[0] = largest_of(x, count);
  pair[1] = pair[0] == -__builtin_inff() ? 0.0f : exponential_sum(x, pair[0], count);
}
// Two such pairs as one, in the place of the first.
void merge_pairs(float* pair, const float* other) {
  const float most = other[0] > pair[0] || other[0] != other[0] ? other[0] : pair[0];
  const float sum = most == -__builtin_inff()
                        ? 0.0f
                        : pair[1] * exp_negative(broadcast(pair[0] - most))[0] +
                              other[1] * exp_negative(broadcast(other[0] - most))[0];
  pair[0] = most;
  pair[1] = sum;
}

// (exp(x − most) / sum − [i = label]) · d.
void crossentropy_grad_row(const float* x, const float* pair, int64_t label, float d, float* dx,
                           int64_t count) {
  const bool here = label >= 0 && label < count;
  const float picked = here ? x[label] : 0.0f;
  const float most = pair[0];
  const float inverse = 1.0f / pair[1];
  const auto gradient = [&](Floats v) { return exp_negative(v - most) * inverse; };
  for_each_vector(count, [&](auto lanes) { lanes.put(dx, gradient(lanes.get(x)) * d); });
  if (here) dx[label] = (gradient(broadcast(picked))[0] - 1.0f) * d;
}

struct RowStats {
  float mean, inverse;
};
inline RowStats moments_of(const float* x, int64_t count, float epsilon) {
  const auto columns = static_cast<float>(count);
  const float mean = sum_over(count, [&](auto lanes) { return lanes.get(x); }) / columns;
  const float squares = sum_over(count, [&](auto lanes) {
    const Floats d = lanes.keep(lanes.get(x) - mean);
    return d * d;
  });
  return {mean, 1.0f / __builtin_sqrtf(squares / columns + epsilon)};
}

// Rows [begin, end); gamma, beta, y and stats may be null.
void layer_norm_rows(const float* x, const float* gamma, const float* beta, float epsilon,
                     int64_t columns, float* y, float* stats, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * columns;
    const RowStats s = moments_of(from, columns, epsilon);
    if (stats != nullptr) {
      stats[2 * row] = s.mean;
      stats[2 * row + 1] = s.inverse;
    }
    if (y == nullptr) continue;
    float* to = y + row * columns;
    for_each_vector(columns, [&](auto lanes) {
      Floats v = (lanes.get(from) - s.mean) * s.inverse;
      if (gamma != nullptr) v *= lanes.get(gamma);
      if (beta != nullptr) v += lanes.get(beta);
      lanes.put(to, v);
    });
  }
}

// dx = (g − mean(g) − x̂ · mean(g · x̂)) / deviation with g = dy · gamma.
void layer_norm_grad_rows(const float* dy, const float* x, const float* stats, const float* gamma,
                          int64_t columns, float* dx, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* d = dy + row * columns;
    const float* from = x + row * columns;
    float* to = dx + row * columns;
    const float mean = stats[2 * row];
    const float inverse = stats[2 * row + 1];
    const auto scaled = [&](auto lanes) {
      return gamma == nullptr ? lanes.get(d) : lanes.get(d) * lanes.get(gamma);
    };
    const auto normal = [&](auto lanes) { return (lanes.get(from) - mean) * inverse; };
    const auto count = static_cast<float>(columns);
    const float mean_g = sum_over(columns, scaled) / count;
    const float mean_product =
        sum_over(columns, [&](auto lanes) { return scaled(lanes) * normal(lanes); }) / count;
    for_each_vector(columns, [&](auto lanes) {
      lanes.put(to, (scaled(lanes) - mean_g - normal(lanes) * mean_product) * inverse);
    });
  }
}

// sums[c] (+)= Σ dy and sums[columns + c] (+)= Σ dy · x̂ for columns [begin, end), whole vectors but
// for the last; rows in groups of 64.
void layer_norm_column_sums(const float* dy, const float* x, const float* stats, int64_t rows,
                            int64_t columns, float* sums, bool add, int64_t begin, int64_t end) {
  constexpr int64_t kGroup = 64;
  for_each_vector(end - begin, [&](auto lanes) {
    Floats total = {}, product_total = {};
    for (int64_t first = 0; first < rows; first += kGroup) {
      const int64_t last = first + kGroup < rows ? first + kGroup : rows;
      Floats sum = {}, product = {};
      for (int64_t row = first; row < last; ++row) {
        const Floats d = lanes.get(dy + row * columns + begin);
        const Floats normal =
            (lanes.get(x + row * columns + begin) - stats[2 * row]) * stats[2 * row + 1];
        sum += d;
        product += d * normal;
      }
      total += sum;
      product_total += product;
    }
    float* to = sums + begin;
    if (add) {
      total = lanes.get(to) + total;
      product_total = lanes.get(to + columns) + product_total;
    }
    lanes.put(to, total);
    lanes.put(to + columns, product_total);
  });
}

// Rows [begin, end) by their root mean square; y and inverses may be null.
void rms_norm_rows(const float* x, const float* scale, float epsilon, int64_t columns, float* y,
                   float* inverses, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * columns;
    const float squares =
        sum_over(columns, [&](auto lanes) { return lanes.get(from) * lanes.get(from); });
    const float inverse = 1.0f / __builtin_sqrtf(squares / static_cast<float>(columns) + epsilon);
    if (inverses != nullptr) inverses[row] = inverse;
    if (y == nullptr) continue;
    float* to = y + row * columns;
    for_each_vector(
        columns, [&](auto lanes) { lanes.put(to, lanes.get(from) * inverse * lanes.get(scale)); });
  }
}

// dx = (g − x̂ · mean(g · x̂)) · inverse with g = dy · scale and x̂ = x · inverse.
void rms_norm_grad_rows(const float* dy, const float* x, const float* inverses, const float* scale,
                        int64_t columns, float* dx, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* d = dy + row * columns;
    const float* from = x + row * columns;
    float* to = dx + row * columns;
    const float inverse = inverses[row];
    const auto scaled = [&](auto lanes) { return lanes.get(d) * lanes.get(scale); };
    const auto normal = [&](auto lanes) { return lanes.get(from) * inverse; };
    const float mean =
        sum_over(columns, [&](auto lanes) { return scaled(lanes) * normal(lanes); }) /
        static_cast<float>(columns);
    for_each_vector(columns, [&](auto lanes) {
      lanes.put(to, (scaled(lanes) - normal(lanes) * mean) * inverse);
    });
  }
}

// sums[c] (+)= Σ dy · x̂ for columns [begin, end), as layer_norm_column_sums.
void rms_norm_column_sums(const float* dy, const float* x, const float* inverses, int64_t rows,
                          int64_t columns, float* sums, bool add, int64_t begin, int64_t end) {
  constexpr int64_t kGroup = 64;
  for_each_vector(end - begin, [&](auto lanes) {
    Floats total = {};
    for (int64_t first = 0; first < rows; first += kGroup) {
      const int64_t last = first + kGroup < rows ? first + kGroup : rows;
      Floats sum = {};
      for (int64_t row = first; row < last; ++row) {
        sum += lanes.get(dy + row * columns + begin) *
               (lanes.get(x + row * columns + begin) * inverses[row]);
      }
      total += sum;
    }
    float* to = sums + begin;
    if (add) total = lanes.get(to) + total;
    lanes.put(to, total);
  });
}
