// Loops of narrow_dense.cpp; see for_each_isa.h.

// Σ x · w over a stretch: four vectors of partial sums, folded pairwise.
float dot_stretch(const float* x, const float* w, int64_t count) {
  Floats a = {}, b = {}, c = {}, d = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    a += load(x + i) * load(w + i);
    b += load(x + i + kLanes) * load(w + i + kLanes);
    c += load(x + i + 2 * kLanes) * load(w + i + 2 * kLanes);
    d += load(x + i + 3 * kLanes) * load(w + i + 3 * kLanes);
  }
  Floats all = (a + b) + (c + d);
  float rest = 0.0f;
  for (; i < count; ++i) rest += x[i] * w[i];
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) all[lane] += all[lane + width];
  }
  return all[0] + rest;
}

// y = w · factor.
void scale_stretch(const float* w, float factor, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = w[i] * factor;
}

// sums[i] (+)= Σ over rows of x[row][i] · d[row], for i in [begin, end) of rows of `width`.
void weighted_column_sums(const float* x, const float* d, int64_t rows, int64_t width,
                          int64_t begin, int64_t end, float* sums, bool add) {
  constexpr int64_t kStretch = 512;
  for (int64_t at = begin; at < end; at += kStretch) {
    const int64_t count = end - at < kStretch ? end - at : kStretch;
    float total[kStretch];
    for (int64_t i = 0; i < count; ++i) total[i] = x[at + i] * d[0];
    for (int64_t row = 1; row < rows; ++row) {
      const float* from = x + row * width + at;
      const float factor = d[row];
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) total[i] += from[i] * factor;
    }
    if (add) {
      for (int64_t i = 0; i < count; ++i) sums[at + i] += total[i];
    } else {
      for (int64_t i = 0; i < count; ++i) sums[at + i] = total[i];
    }
  }
}
