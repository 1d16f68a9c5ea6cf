// Functions of vectors, element by element; included by files of loops after vectors_inl.h.
//
// Polynomials of the Cephes library (exp, tanh) and of XLA (erf), a few roundings off in the worst
// case. A NaN stays one. Elements do not depend on their neighbours, so that parts of vectors give
// the bits of whole ones.

#include "backend/cpu/simd/vector_walk_inl.h"

inline Floats choose(Ints mask, Floats yes, Floats no) { return mask ? yes : no; }
inline Floats magnitude(Floats x) {
  return reinterpret_cast<Floats>(reinterpret_cast<Ints>(x) & 0x7fffffff);
}
inline Floats with_sign_of(Floats x, Floats sign) {
  const Ints bit = reinterpret_cast<Ints>(sign) & static_cast<int32_t>(0x80000000u);
  return reinterpret_cast<Floats>(reinterpret_cast<Ints>(x) | bit);
}

// exp(x) = (1 + rest) · power, power a power of two, for x in [−87.3, 0].
struct ExpParts {
  Floats rest, power;
};
inline ExpParts exp_parts(Floats x) {
  constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: what is added to it is rounded to integers
  constexpr int32_t kRoundBits = 0x4B400000;
  const Floats shifted = multiply_add(x, broadcast(1.44269504f), broadcast(kRound));
  const Floats n = shifted - kRound;
  Floats r = multiply_add(n, broadcast(-0.693359375f), x);
  r = multiply_add(n, broadcast(2.12194440e-4f), r);
  Floats p = multiply_add(broadcast(1.9875691500e-4f), r, broadcast(1.3981999507e-3f));
  p = multiply_add(p, r, broadcast(8.3334519073e-3f));
  p = multiply_add(p, r, broadcast(4.1665795894e-2f));
  p = multiply_add(p, r, broadcast(1.6666665459e-1f));
  p = multiply_add(p, r, broadcast(5.0000001201e-1f));
  const Ints power = (reinterpret_cast<Ints>(shifted) - kRoundBits + 127) << 23;
  return {multiply_add(p, r * r, r), reinterpret_cast<Floats>(power)};
}
// exp(x) for x at most 0; 0 where that is below the smallest normal number.
inline Floats exp_negative(Floats x) {
  constexpr float kLeast = -87.33654f;
  const ExpParts e = exp_parts(choose(x < kLeast, broadcast(kLeast), x));
  return choose(x < kLeast, Floats{}, (e.rest + 1.0f) * e.power);
}
// exp(x) − 1 for x at most 0.
inline Floats expm1_negative(Floats x) {
  constexpr float kLeast = -18.0f;  // −1 below it
  const ExpParts e = exp_parts(choose(x < kLeast, broadcast(kLeast), x));
  return multiply_add(e.rest, e.power, e.power - 1.0f);
}

// 1 / (1 + exp(−x)).
inline Floats sigmoid_of(Floats x) {
  const Floats e = exp_negative(-magnitude(x));
  return choose(x < 0.0f, e, broadcast(1.0f)) / (1.0f + e);
}

inline Floats tanh_of(Floats x) {
  const Floats square = x * x;
  Floats p = multiply_add(broadcast(-5.70498872745e-3f), square, broadcast(2.06390887954e-2f));
  p = multiply_add(p, square, broadcast(-5.37397155531e-2f));
  p = multiply_add(p, square, broadcast(1.33314422036e-1f));
  p = multiply_add(p, square, broadcast(-3.33332819422e-1f));
  const Floats small = multiply_add(p * square, x, x);
  const Floats size = magnitude(x);
  const Floats e = exp_negative(-2.0f * size);
  const Floats large = with_sign_of((1.0f - e) / (1.0f + e), x);
  return choose(size < 0.625f, small, large);
}

inline Floats erf_of(Floats x) {
  constexpr float kMost = 3.832506856900711f;
  Floats c = choose(x > kMost, broadcast(kMost), x);
  c = choose(c < -kMost, broadcast(-kMost), c);
  const Floats square = c * c;
  Floats p =
      multiply_add(broadcast(0.00022905065861350646f), square, broadcast(0.0034082910107109506f));
  p = multiply_add(p, square, broadcast(0.050955695062380861f));
  p = multiply_add(p, square, broadcast(0.18520832239976145f));
  p = multiply_add(p, square, broadcast(1.128379143519084f));
  Floats q =
      multiply_add(broadcast(-1.1791602954361697e-7f), square, broadcast(0.000023547966471313185f));
  q = multiply_add(q, square, broadcast(0.0010179625278914885f));
  q = multiply_add(q, square, broadcast(0.014070470171167667f));
  q = multiply_add(q, square, broadcast(0.11098505178285362f));
  q = multiply_add(q, square, broadcast(0.49746925110067538f));
  q = multiply_add(q, square, broadcast(1.0f));
  return c * p / q;
}

// The distribution function of the normal distribution.
inline Floats normal_cdf(Floats x) { return 0.5f * (1.0f + erf_of(x * 0.707106781186547524f)); }

// Lanes folded in pairs: the first half with the second, and so on.
inline float sum_of_lanes(Floats v) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) v[lane] += v[lane + width];
  }
  return v[0];
}
inline float largest_lane(Floats v) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) {
      v[lane] = v[lane] > v[lane + width] ? v[lane] : v[lane + width];
    }
  }
  return v[0];
}

// Σ f(vector) over the vectors of `count` numbers, in groups of 64 whose sums are added in order:
// an error of about 64 + count / 64 / lanes roundings. f gives 0 for what is not there.
template <typename F>
inline float sum_over(int64_t count, const F& f) {
  constexpr int64_t kGroup = 64 * kLanes;
  Floats total = {};
  for (int64_t begin = 0; begin < count; begin += kGroup) {
    const int64_t end = begin + kGroup < count ? begin + kGroup : count;
    Floats part = {};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) part += f(WholeVector{i});
    if (i < end) part += f(PartVector{i, end - i});
    total += part;
  }
  return sum_of_lanes(total);
}
