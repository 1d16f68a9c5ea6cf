// Loops of optimizers.cpp; see for_each_isa.h. New values may lie where the old ones lay.

void sgd_update(const SgdStep& s, const float* w, const float* g, float* new_w, int64_t count) {
  const float lr = s.lr;
  const float decay = s.decay;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float old = decay == 0.0f ? w[i] : w[i] - w[i] * decay * lr;
    new_w[i] = old - g[i] * lr;
  }
}

void momentum_update(const SgdStep& s, const float* w, const float* g, const float* m, float* new_w,
                     float* new_m, int64_t count) {
  const float lr = s.lr;
  const float decay = s.decay;
  const float keep = s.momentum;
  const float ahead = s.nesterov ? keep : 1.0f;
  const float again = s.nesterov ? 1.0f : 0.0f;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float old = decay == 0.0f ? w[i] : w[i] - w[i] * decay * lr;
    const float step = g[i] * lr;
    const float velocity = m[i] * keep - step;
    new_w[i] = old + (velocity * ahead - step * again);
    new_m[i] = velocity;
  }
}

void adam_update(const AdamStep& s, const float* w, const float* g, const float* m, const float* v,
                 float* new_w, float* new_m, float* new_v, int64_t count) {
  const AdamStep a = s;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float first = m[i] + (g[i] - m[i]) * a.take_1;
    const float second = v[i] + (g[i] * g[i] - v[i]) * a.take_2;
    const float old = a.decay == 0.0f ? w[i] : w[i] - w[i] * a.decay * a.lr;
    new_m[i] = first;
    new_v[i] = second;
    new_w[i] = old - first * a.alpha / (__builtin_sqrtf(second) + a.epsilon);
  }
}

void amsgrad_update(const AdamStep& s, const float* w, const float* g, const float* m,
                    const float* v, const float* v_hat, float* new_w, float* new_m, float* new_v,
                    float* new_v_hat, int64_t count) {
  const AdamStep a = s;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float first = m[i] + (g[i] - m[i]) * a.take_1;
    const float second = v[i] + (g[i] * g[i] - v[i]) * a.take_2;
    const float largest = v_hat[i] > second ? v_hat[i] : second;
    const float old = a.decay == 0.0f ? w[i] : w[i] - w[i] * a.decay * a.lr;
    new_m[i] = first;
    new_v[i] = second;
    new_v_hat[i] = largest;
    new_w[i] = old - first * a.alpha / (__builtin_sqrtf(largest) + a.epsilon);
  }
}

void rmsprop_update(const RmspropStep& s, const float* w, const float* g, const float* v,
                    float* new_w, float* new_v, int64_t count) {
  const RmspropStep a = s;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float second = a.rho * v[i] + a.take * (g[i] * g[i]);
    const float step = a.lr * g[i] / __builtin_sqrtf(second + a.epsilon);
    const float old = a.decay == 0.0f ? w[i] : w[i] - w[i] * a.decay * a.lr;
    new_v[i] = second;
    new_w[i] = old - step;
  }
}

// The same with the sums of squares, `q`, of a table's rows.
void rmsprop_rows_update(const RmspropStep& s, const float* w, const float* g, const float* q,
                         const float* v, float* new_w, float* new_v, int64_t count) {
  const RmspropStep a = s;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float second = a.rho * v[i] + a.take * q[i];
    const float step = a.lr * g[i] / __builtin_sqrtf(second + a.epsilon);
    const float old = a.decay == 0.0f ? w[i] : w[i] - w[i] * a.decay * a.lr;
    new_v[i] = second;
    new_w[i] = old - step;
  }
}
