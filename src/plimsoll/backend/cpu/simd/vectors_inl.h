// Vectors of PLIMSOLL_LANES floats, for loops that the compiler does not vectorize well by itself;
// part of every variant (for_each_isa.h). Addresses need no alignment.

constexpr int kLanes = PLIMSOLL_LANES;
using Floats = float __attribute__((vector_size(4 * PLIMSOLL_LANES)));
using Ints = int32_t __attribute__((vector_size(4 * PLIMSOLL_LANES)));
using SmallInts = uint8_t __attribute__((vector_size(PLIMSOLL_LANES)));

inline Floats load(const float* from) {
  Floats v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}
inline void store(float* to, Floats v) { __builtin_memcpy(to, &v, sizeof(v)); }
#if PLIMSOLL_LANES == 8
// A mask of the first `count` lanes.
inline __m256i first_lanes(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#endif
// The first `count` lanes, 0 to all of them; the others are zero, and nothing is read or written
// there.
inline Floats load_first(const float* from, int64_t count) {
#if PLIMSOLL_LANES == 16
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
#elif PLIMSOLL_LANES == 8
  return _mm256_maskload_ps(from, first_lanes(count));
#else
  Floats v = {};
  __builtin_memcpy(&v, from, static_cast<size_t>(count) * sizeof(float));
  return v;
#endif
}
inline void store_first(float* to, Floats v, int64_t count) {
#if PLIMSOLL_LANES == 16
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), v);
#elif PLIMSOLL_LANES == 8
  _mm256_maskstore_ps(to, first_lanes(count), v);
#else
  __builtin_memcpy(to, &v, static_cast<size_t>(count) * sizeof(float));
#endif
}
// x in every lane, straight from memory where x lies there: a sum with zero would be an addition.
inline Floats broadcast(float x) {
#if PLIMSOLL_LANES == 16
  return _mm512_set1_ps(x);
#elif PLIMSOLL_LANES == 8
  return _mm256_set1_ps(x);
#else
  return Floats{x, x, x, x};
#endif
}
// a · b + c, rounded once where the instruction set has that.
inline Floats multiply_add(Floats a, Floats b, Floats c) {
#if PLIMSOLL_LANES == 16
  return _mm512_fmadd_ps(a, b, c);
#elif PLIMSOLL_LANES == 8
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}
// Which lanes of a vector are meant.
#if PLIMSOLL_LANES == 16
using Lanes = __mmask16;
#else
using Lanes = Ints;
#endif
inline Lanes lanes_where_equal(Ints a, int32_t b) {
#if PLIMSOLL_LANES == 16
  return _mm512_cmpeq_epi32_mask(reinterpret_cast<__m512i>(a), _mm512_set1_epi32(b));
#else
  return a == b;
#endif
}
// multiply_add in those lanes, c in the others.
inline Floats multiply_add_lanes(Lanes lanes, Floats a, Floats b, Floats c) {
#if PLIMSOLL_LANES == 16
  return _mm512_mask3_fmadd_ps(a, b, c, lanes);
#else
  return lanes ? multiply_add(a, b, c) : c;
#endif
}
#if PLIMSOLL_LANES == 16
inline Lanes lanes_where_less(Ints a, int32_t b) {
  return _mm512_cmplt_epi32_mask(reinterpret_cast<__m512i>(a), _mm512_set1_epi32(b));
}
// a + b in those lanes, a in the others.
inline Floats add_lanes(Lanes lanes, Floats a, Floats b) {
  return _mm512_mask_add_ps(a, lanes, a, b);
}
// Those lanes in front, in their order; zeros after them.
inline Floats lanes_in_front(Lanes lanes, Floats v) { return _mm512_maskz_compress_ps(lanes, v); }
inline Ints lanes_in_front(Lanes lanes, Ints v) {
  return reinterpret_cast<Ints>(_mm512_maskz_compress_epi32(lanes, reinterpret_cast<__m512i>(v)));
}
inline int64_t count_lanes(Lanes lanes) { return __builtin_popcount(lanes); }
// Lane by lane number `at` of the two vectors, one after the other.
inline Floats pick(Floats first, Floats second, Ints at) {
  return _mm512_permutex2var_ps(first, reinterpret_cast<__m512i>(at), second);
}
#endif
#if PLIMSOLL_LANES == 8
inline uint32_t lane_bits(Lanes lanes) {
  return static_cast<uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(lanes)));
}
inline __m256i lane_order(Lanes lanes) {
  const auto order = static_cast<int64_t>(kLaneOrder[lane_bits(lanes)]);
  return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(order));
}
// Those lanes in front, in their order; any after them.
inline Floats lanes_in_front(Lanes lanes, Floats v) {
  return _mm256_permutevar8x32_ps(v, lane_order(lanes));
}
inline Ints lanes_in_front(Lanes lanes, Ints v) {
  const auto numbers = reinterpret_cast<__m256i>(v);
  return reinterpret_cast<Ints>(_mm256_permutevar8x32_epi32(numbers, lane_order(lanes)));
}
inline int64_t count_lanes(Lanes lanes) { return __builtin_popcount(lane_bits(lanes)); }
#endif
inline void store_ints(int32_t* to, Ints v) { __builtin_memcpy(to, &v, sizeof(v)); }
// The compiler converts bytes one by one.
inline Ints load_winners(const uint8_t* from) {
#if PLIMSOLL_LANES == 16
  const __m128i small = _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(from));
  return reinterpret_cast<Ints>(_mm512_maskz_cvtepu8_epi32(0xFFFF, small));
#elif PLIMSOLL_LANES == 8
  const __m128i small = _mm_loadl_epi64(reinterpret_cast<const __m128i_u*>(from));
  return reinterpret_cast<Ints>(_mm256_cvtepu8_epi32(small));
#else
  SmallInts v;
  __builtin_memcpy(&v, from, sizeof(v));
  return __builtin_convertvector(v, Ints);
#endif
}
inline Ints load_winners(const int32_t* from) {
  Ints v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}
inline void store_winners(uint8_t* to, Ints v) {
#if PLIMSOLL_LANES == 8
  const auto numbers = reinterpret_cast<__m256i>(v);
  const __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(numbers, numbers), 0x08);
  const __m128i low = _mm256_castsi256_si128(halves);
  _mm_storel_epi64(reinterpret_cast<__m128i_u*>(to), _mm_packus_epi16(low, low));
#else
  const SmallInts small = __builtin_convertvector(v, SmallInts);
  __builtin_memcpy(to, &small, sizeof(small));
#endif
}
inline void store_winners(int32_t* to, Ints v) { __builtin_memcpy(to, &v, sizeof(v)); }

// One bit a lane, the first lane lowest: lane > 0.
inline uint32_t positive_mask(Floats v) {
#if PLIMSOLL_LANES == 16
  return _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_GT_OQ);
#elif PLIMSOLL_LANES == 8
  return static_cast<uint32_t>(
      _mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_GT_OQ)));
#else
  uint32_t mask = 0;
  for (int i = 0; i < kLanes; ++i) mask |= static_cast<uint32_t>(v[i] > 0.0f) << i;
  return mask;
#endif
}
// The lanes whose bit is set, others zero.
inline Floats keep_lanes(Floats v, uint32_t mask) {
#if PLIMSOLL_LANES == 16
  return _mm512_maskz_mov_ps(static_cast<__mmask16>(mask), v);
#else
  Ints bits;
  for (int i = 0; i < kLanes; ++i) bits[i] = 1 << i;
  const Ints chosen = ((Ints{} + static_cast<int32_t>(mask)) & bits) != 0;
  return reinterpret_cast<Floats>(reinterpret_cast<Ints>(v) & chosen);
#endif
}
