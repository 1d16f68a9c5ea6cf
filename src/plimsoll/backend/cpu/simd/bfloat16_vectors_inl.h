// Numbers of bfloat16 as vectors of float32; included after vectors_inl.h. What is stored is
// rounded to nearest, ties to even, and a NaN stays one (base/bfloat16.h). No instruction for it is
// asked for: memory is slower than these few steps.

using Halves = uint16_t __attribute__((vector_size(2 * PLIMSOLL_LANES)));
using Words = uint32_t __attribute__((vector_size(4 * PLIMSOLL_LANES)));

inline Floats widened(Halves halves) {
#if PLIMSOLL_LANES == 16
  const __m512i wide = _mm512_maskz_cvtepu16_epi32(0xFFFF, reinterpret_cast<__m256i>(halves));
  return reinterpret_cast<Floats>(_mm512_maskz_slli_epi32(0xFFFF, wide, 16));
#elif PLIMSOLL_LANES == 8
  const __m256i wide = _mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(halves));
  return reinterpret_cast<Floats>(_mm256_slli_epi32(wide, 16));
#else
  return reinterpret_cast<Floats>(__builtin_convertvector(halves, Words) << 16);
#endif
}
inline Halves rounded(Floats v) {
#if PLIMSOLL_LANES == 16
  const auto bits = reinterpret_cast<__m512i>(v);
  const __m512i odd = _mm512_maskz_srli_epi32(0xFFFF, bits, 16) & _mm512_set1_epi32(1);
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i all = _mm512_mask_or_epi32(up, nan, bits, _mm512_set1_epi32(0x400000));
  const __m512i high = _mm512_maskz_srli_epi32(0xFFFF, all, 16);
  return reinterpret_cast<Halves>(_mm512_maskz_cvtepi32_epi16(0xFFFF, high));
#else
  const auto bits = reinterpret_cast<Words>(v);
  const Words up = bits + 0x7FFF + ((bits >> 16) & 1);
  const Words all = v != v ? bits | 0x400000 : up;
#if PLIMSOLL_LANES == 8
  const __m256i high = _mm256_srli_epi32(reinterpret_cast<__m256i>(all), 16);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0x08);
  return reinterpret_cast<Halves>(_mm256_castsi256_si128(packed));
#else
  return __builtin_convertvector(all >> 16, Halves);
#endif
#endif
}

inline Floats load(const uint16_t* from) {
  Halves halves;
  __builtin_memcpy(&halves, from, sizeof(halves));
  return widened(halves);
}
inline void store(uint16_t* to, Floats v) {
  const Halves halves = rounded(v);
  __builtin_memcpy(to, &halves, sizeof(halves));
}
// The first `count` numbers of a vector, zeros after them.
inline Floats load_part(const uint16_t* from, int64_t count) {
#if PLIMSOLL_LANES == 16
  const auto here = static_cast<__mmask16>((1u << count) - 1u);
  return widened(reinterpret_cast<Halves>(_mm256_maskz_loadu_epi16(here, from)));
#else
  Halves halves = {};
  for (int64_t i = 0; i < count; ++i) halves[i] = from[i];
  return widened(halves);
#endif
}
inline void store_part(uint16_t* to, Floats v, int64_t count) {
  const Halves halves = rounded(v);
#if PLIMSOLL_LANES == 16
  const auto here = static_cast<__mmask16>((1u << count) - 1u);
  _mm256_mask_storeu_epi16(to, here, reinterpret_cast<__m256i>(halves));
#else
  for (int64_t i = 0; i < count; ++i) to[i] = halves[i];
#endif
}

// One number, for what is left over.
inline float number(const float* from) { return *from; }
inline float number(const uint16_t* from) {
  const uint32_t bits = static_cast<uint32_t>(*from) << 16;
  float x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}
inline void put_number(float* to, float x) { *to = x; }
inline void put_number(uint16_t* to, float x) { store_part(to, broadcast(x), 1); }
