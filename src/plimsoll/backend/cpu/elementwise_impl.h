// Loops of elementwise.cpp and activation.cpp; see for_each_isa.h. An output may be the memory of
// the input of the same shape.

#include "backend/cpu/functions_impl.h"

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

inline Floats gelu_tanh_inner(Floats x) {
  return tanh_of(0.797884560802865356f * (x + 0.044715f * x * x * x));
}
inline Floats silu_of(Floats x) { return x * sigmoid_of(x); }
inline Floats gelu_of(Floats x) { return x * normal_cdf(x); }
inline Floats gelu_tanh_of(Floats x) { return 0.5f * x * (1.0f + gelu_tanh_inner(x)); }
inline Floats sigmoid_slope(Floats y) { return y * (1.0f - y); }
inline Floats tanh_slope(Floats y) { return 1.0f - y * y; }
inline Floats silu_slope(Floats x) {
  const Floats s = sigmoid_of(x);
  return s * (1.0f + x * (1.0f - s));
}
inline Floats gelu_slope(Floats x) {
  const Floats density = exp_negative(-0.5f * x * x) * 0.398942280401432678f;
  return normal_cdf(x) + x * density;
}
inline Floats gelu_tanh_slope(Floats x) {
  const Floats t = gelu_tanh_inner(x);
  const Floats inner = 0.797884560802865356f * (1.0f + 0.134145f * x * x);
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
}

// y = f(x).
template <Floats (*kFunction)(Floats)>
void map_values(const float* x, float* y, int64_t count) {
  for_each_vector(count, [&](auto lanes) { lanes.put(y, kFunction(lanes.get(x))); });
}
// dx = dy · slope(reference).
template <Floats (*kSlope)(Floats)>
void slope_values(const float* dy, const float* reference, float* dx, int64_t count) {
  for_each_vector(count,
                  [&](auto lanes) { lanes.put(dx, lanes.get(dy) * kSlope(lanes.get(reference))); });
}
void sigmoid_values(const float* x, float* y, int64_t count) {
  map_values<sigmoid_of>(x, y, count);
}
void tanh_values(const float* x, float* y, int64_t count) { map_values<tanh_of>(x, y, count); }
void silu_values(const float* x, float* y, int64_t count) { map_values<silu_of>(x, y, count); }
void gelu_values(const float* x, float* y, int64_t count) { map_values<gelu_of>(x, y, count); }
void gelu_tanh_values(const float* x, float* y, int64_t count) {
  map_values<gelu_tanh_of>(x, y, count);
}
void sigmoid_slopes(const float* dy, const float* r, float* dx, int64_t count) {
  slope_values<sigmoid_slope>(dy, r, dx, count);
}
void tanh_slopes(const float* dy, const float* r, float* dx, int64_t count) {
  slope_values<tanh_slope>(dy, r, dx, count);
}
void silu_slopes(const float* dy, const float* r, float* dx, int64_t count) {
  slope_values<silu_slope>(dy, r, dx, count);
}
void gelu_slopes(const float* dy, const float* r, float* dx, int64_t count) {
  slope_values<gelu_slope>(dy, r, dx, count);
}
void gelu_tanh_slopes(const float* dy, const float* r, float* dx, int64_t count) {
  slope_values<gelu_tanh_slope>(dy, r, dx, count);
}

// Zero for negatives; a NaN stays one.
void relu_values(const float* x, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}
// dy where the reference is positive, else 0.
void relu_grad_values(const float* dy, const float* reference, float* dx, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Ints kept = load(reference + i) > 0.0f;
    store(dx + i, reinterpret_cast<Floats>(kept & reinterpret_cast<Ints>(load(dy + i))));
  }
  for (; i < count; ++i) dx[i] = reference[i] > 0.0f ? dy[i] : 0.0f;
}
// The same from bits; dy, bits and dx begin at a byte's first bit.
void relu_grad_bits(const float* dy, const uint8_t* bits, float* dx, int64_t count) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    uint16_t word;
    __builtin_memcpy(&word, bits + i / 8, sizeof(word));
    for (int part = 0; part < 16; part += kLanes) {
      store(dx + i + part, keep_lanes(load(dy + i + part), uint32_t{word} >> part));
    }
  }
  for (; i < count; ++i) dx[i] = (bits[i / 8] >> (i % 8)) & 1 ? dy[i] : 0.0f;
}
// One bit a number, rounded up to whole bytes.
void encode_positive_bits(const float* x, uint8_t* bits, int64_t count) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    uint32_t mask = 0;
    for (int part = 0; part < 16; part += kLanes) mask |= positive_mask(load(x + i + part)) << part;
    const uint16_t word = static_cast<uint16_t>(mask);
    __builtin_memcpy(bits + i / 8, &word, sizeof(word));
  }
  for (; i < count; i += 8) {
    unsigned value = 0;
    for (int64_t bit = 0; bit < 8 && i + bit < count; ++bit) {
      value |= static_cast<unsigned>(x[i + bit] > 0.0f) << bit;
    }
    bits[i / 8] = static_cast<uint8_t>(value);
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
void floats_of_uint8(const void* from, float* to, int64_t count) {
  to_floats<uint8_t>(from, to, count);
}
void floats_of_int32(const void* from, float* to, int64_t count) {
  to_floats<int32_t>(from, to, count);
}
void floats_of_int64(const void* from, float* to, int64_t count) {
  to_floats<int64_t>(from, to, count);
}
