// Loops of attention_tiles.cpp; see for_each_isa.h and attention.h.

#include "backend/cpu/simd/functions_inl.h"
#include "backend/cpu/simd/transpose_inl.h"

void transpose_rows(const float* rows, int64_t step, int64_t count, int64_t width, float* to) {
  int64_t lane = 0;
#if PLIMSOLL_LANES >= 8
  for (; lane + kLanes <= count; lane += kLanes) {
    const float* from = rows + lane * step;
    int64_t c = 0;
    for (; c + kLanes <= width; c += kLanes) {
      transpose_tile(from + c, step, kLanes, to + c * kTile + lane, kTile);
    }
    for (; c < width; ++c) {
      for (int i = 0; i < kLanes; ++i) to[c * kTile + lane + i] = from[i * step + c];
    }
  }
#endif
  const int64_t lanes = lanes_of_places(count);
  for (; lane < lanes; ++lane) {
    const float* from = rows + lane * step;
    for (int64_t c = 0; c < width; ++c) to[c * kTile + lane] = lane < count ? from[c] : 0.0f;
  }
}

inline Floats score_at(const ScoreTile& t, int64_t at) {
  const Floats score = load(t.scores + at) * t.scale;
  if (t.seen == nullptr) return score;
  return choose(load_winners(t.seen + at) != 0, score, broadcast(t.masked_score));
}

void merge_scores(const ScoreTile& t, const QueryStats& stats) {
  for (int64_t lane = 0; lane < t.lanes; lane += kLanes) {
    const Floats before = load(stats.most + lane);
    Floats most = before;
    for (int64_t row = 0; row < t.rows; ++row) {
      const Floats score = score_at(t, row * kTile + lane);
      store(t.scores + row * kTile + lane, score);
      most = choose(score > most, score, most);
    }
    const Floats keep = exp_negative(before - most);
    Ints pending = most > before;
    Floats rest = load(stats.rest + lane);
    rest = choose(pending, (rest + 1.0f) * keep, rest);
    Floats key = load(stats.key + lane);
    Floats share = load(stats.share + lane);
    for (int64_t row = 0; row < t.rows; ++row) {
      float* at = t.scores + row * kTile + lane;
      const Floats score = load(at);
      const Ints largest = pending & (score == most);
      pending &= ~largest;
      const Floats factor =
          t.factors == nullptr ? broadcast(1.0f) : load(t.factors + row * kTile + lane);
      key = choose(largest, broadcast(static_cast<float>(t.first_key + row)), key);
      share = choose(largest, factor, share);
      const Floats e = choose(largest, Floats{}, exp_negative(score - most));
      rest += e;
      store(at, e * factor);
    }
    store(stats.most + lane, most);
    store(stats.rest + lane, rest);
    store(stats.key + lane, key);
    store(stats.share + lane, share);
    store(stats.keep + lane, keep);
  }
}

void rescale_rows(float* rows, const float* keep, int64_t count, int64_t width) {
  for (int64_t row = 0; row < count; ++row) {
    if (keep[row] == 1.0f) continue;
    float* at = rows + row * width;
    for_each_vector(width, [&](auto lanes) { lanes.put(at, lanes.get(at) * keep[row]); });
  }
}

void divide_row(const float* row, float sum, int64_t width, float* to) {
  for_each_vector(width, [&](auto lanes) { lanes.put(to, lanes.get(row) / sum); });
}

// Stats are vectors of the lanes, or one number for each row.
template <bool kLaneStats>
inline Floats stat_at(const float* stats, int64_t row, int64_t lane) {
  return kLaneStats ? load(stats + lane) : broadcast(stats[row]);
}

template <bool kLaneStats>
inline void score_gradient(const ScoreTile& t, const QueryStats& stats, float* gradient) {
  for (int64_t row = 0; row < t.rows; ++row) {
    for (int64_t lane = 0; lane < t.lanes; lane += kLanes) {
      const int64_t at = row * kTile + lane;
      const Floats score = score_at(t, at);
      const Floats p = exp_negative(score - stat_at<kLaneStats>(stats.most, row, lane)) *
                       stat_at<kLaneStats>(stats.rest, row, lane);
      const Floats factor = t.factors == nullptr ? broadcast(1.0f) : load(t.factors + at);
      const Floats above =
          load(gradient + at) * factor - stat_at<kLaneStats>(stats.keep, row, lane);
      // Beside a probability of 1 all others are 2⁻²⁴ together at most, and the gradient is nearer
      // to 0 than to what rounding leaves of dot − dot.
      Floats d = choose(p != 1.0f, p * above * t.scale, Floats{});
      if (t.seen != nullptr) d = choose(load_winners(t.seen + at) != 0, d, Floats{});
      store(gradient + at, d);
      store(t.scores + at, p * factor);
    }
  }
}

void gradient_of_queries(const ScoreTile& t, const QueryStats& stats, float* gradient) {
  score_gradient<true>(t, stats, gradient);
}
void gradient_of_keys(const ScoreTile& t, const QueryStats& stats, float* gradient) {
  score_gradient<false>(t, stats, gradient);
}

// In double: what is left of the gradient of a score is the difference from this.
float dot_row(const float* a, const float* b, int64_t count) {
  using Doubles = double __attribute__((vector_size(8 * PLIMSOLL_LANES)));
  Doubles sum = {};
  for_each_vector(count, [&](auto lanes) {
    const Floats left = lanes.get(a);
    const Floats right = lanes.get(b);
    sum += __builtin_convertvector(left, Doubles) * __builtin_convertvector(right, Doubles);
  });
  double total = 0;
  for (int lane = 0; lane < kLanes; ++lane) total += sum[lane];
  return static_cast<float>(total);
}
