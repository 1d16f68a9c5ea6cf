// Loops of elementwise.cpp; see for_each_isa.h. An output may be the memory of
// the input of the same shape.

void add_values(const float* a, const float* b, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}
void subtract_values(const float* a, const float* b, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = a[i] - b[i];
}
void multiply_values(const float* a, const float* b, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = a[i] * b[i];
}
void add_scalar(const float* a, const float* b, float* y, int64_t count) {
  const float right = *b;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = a[i] + right;
}
void subtract_scalar(const float* a, const float* b, float* y, int64_t count) {
  const float right = *b;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = a[i] - right;
}
void multiply_scalar(const float* a, const float* b, float* y, int64_t count) {
  const float right = *b;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = a[i] * right;
}
void scale_shift_values(const float* x, float scale, float offset, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * scale + offset;
}
// Rows of `width` numbers.
void add_bias_rows(const float* x, const float* bias, int64_t width, float* y, int64_t begin,
                   int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * width;
    float* to = y + row * width;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) to[i] = from[i] + bias[i];
  }
}

// Where a draw in [0, 1) is at least `rate`: x scaled, else 0.
void dropout_values(const float* x, const float* draws, float rate, float scale, float* y,
                    int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = draws[i] >= rate ? x[i] * scale : 0.0f;
}

template <typename From>
inline void to_floats(const void* from, float* to, int64_t count) {
  const auto* x = static_cast<const From*>(from);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(x[i]);
}
void floats_of_double(const void* from, float* to, int64_t count) {
  to_floats<double>(from, to, count);
}
void floats_of_bfloat16(const void* from, float* to, int64_t count) {
  const auto* x = static_cast<const uint16_t*>(from);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = static_cast<uint32_t>(x[i]) << 16;
    __builtin_memcpy(to + i, &bits, sizeof(bits));
  }
}
void floats_of_uint8(const void* from, float* to, int64_t count) {
  to_floats<uint8_t>(from, to, count);
}
void floats_of_int32(const void* from, float* to, int64_t count) {
  to_floats<int32_t>(from, to, count);
}
void floats_of_int64(const void* from, float* to, int64_t count) {
  to_floats<int64_t>(from, to, count);
}
