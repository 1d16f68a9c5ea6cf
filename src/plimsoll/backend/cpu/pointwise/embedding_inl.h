// Loops of embedding.cpp; see for_each_isa.h. New values may lie where the old ones lay.

// Adam on weights without a gradient: their moments decay and still move them.
void adam_idle(const RowsStep& s, const float* w, const float* m, const float* v, float* new_w,
               float* new_m, float* new_v, int64_t count) {
  const RowsStep a = s;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float first = m[i] + (0.0f - m[i]) * a.take_1;
    const float second = v[i] + (0.0f - v[i]) * a.take_2;
    const float old = a.decay == 0.0f ? w[i] : w[i] - w[i] * a.decay;
    new_m[i] = first;
    new_v[i] = second;
    new_w[i] = old - first * a.alpha / (__builtin_sqrtf(second) + a.epsilon);
  }
}

// The same with the sums of the gradients and of their squares.
void adam_active(const RowsStep& s, const float* sums, const float* squares, const float* w,
                 const float* m, const float* v, float* new_w, float* new_m, float* new_v,
                 int64_t count) {
  const RowsStep a = s;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float first = m[i] + (sums[i] - m[i]) * a.take_1;
    const float second = v[i] + (squares[i] - v[i]) * a.take_2;
    const float old = a.decay == 0.0f ? w[i] : w[i] - w[i] * a.decay;
    new_m[i] = first;
    new_v[i] = second;
    new_w[i] = old - first * a.alpha / (__builtin_sqrtf(second) + a.epsilon);
  }
}

// sums += g and squares += g².
void add_gradient(const float* g, float* sums, float* squares, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    sums[i] += g[i];
    squares[i] += g[i] * g[i];
  }
}

void add_to_doubles(const float* g, double* sums, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(g[i]);
}

void add_squares_to_doubles(const float* g, double* sums, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(g[i] * g[i]);
}

void add_magnitudes_to_doubles(const float* g, double* sums, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(g[i] < 0.0f ? -g[i] : g[i]);
}
