// Loops of elementwise.cpp; see for_each_isa.h. T: float, or uint16_t for bfloat16. An output may
// be the memory of the input of the same shape.

#include "backend/cpu/simd/vector_walk_inl.h"

template <typename T>
void add_values(const T* a, const T* b, T* y, int64_t count) {
  for_each_vector(count, [&](auto lanes) { lanes.put(y, lanes.get(a) + lanes.get(b)); });
}
template <typename T>
void subtract_values(const T* a, const T* b, T* y, int64_t count) {
  for_each_vector(count, [&](auto lanes) { lanes.put(y, lanes.get(a) - lanes.get(b)); });
}
template <typename T>
void multiply_values(const T* a, const T* b, T* y, int64_t count) {
  for_each_vector(count, [&](auto lanes) { lanes.put(y, lanes.get(a) * lanes.get(b)); });
}
template <typename T>
void add_scalar(const T* a, const T* b, T* y, int64_t count) {
  const Floats right = broadcast(number(b));
  for_each_vector(count, [&](auto lanes) { lanes.put(y, lanes.get(a) + right); });
}
template <typename T>
void subtract_scalar(const T* a, const T* b, T* y, int64_t count) {
  const Floats right = broadcast(number(b));
  for_each_vector(count, [&](auto lanes) { lanes.put(y, lanes.get(a) - right); });
}
template <typename T>
void multiply_scalar(const T* a, const T* b, T* y, int64_t count) {
  const Floats right = broadcast(number(b));
  for_each_vector(count, [&](auto lanes) { lanes.put(y, lanes.get(a) * right); });
}
template <typename T>
void scale_shift_values(const T* x, float scale, float offset, T* y, int64_t count) {
  for_each_vector(count, [&](auto lanes) { lanes.put(y, lanes.get(x) * scale + offset); });
}
// Rows of `width` numbers.
template <typename T>
void add_bias_rows(const T* x, const float* bias, int64_t width, T* y, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* from = x + row * width;
    T* to = y + row * width;
    for_each_vector(width, [&](auto lanes) { lanes.put(to, lanes.get(from) + lanes.get(bias)); });
  }
}

// Where a draw in [0, 1) is at least `rate`: x scaled, else 0.
template <typename T>
void dropout_values(const T* x, const float* draws, float rate, float scale, T* y, int64_t count) {
  for_each_vector(count, [&](auto lanes) {
    lanes.put(y, lanes.get(draws) >= rate ? lanes.get(x) * scale : Floats{});
  });
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
  for_each_vector(count, [&](auto lanes) { lanes.put(to, lanes.get(x)); });
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
