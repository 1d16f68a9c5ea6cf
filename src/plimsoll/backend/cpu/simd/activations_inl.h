// Loops of activations.cpp; see for_each_isa.h. Formulas: ops/activation_functions.h, in the same
// order where there is nothing but comparisons, sums, products and quotients in them. An output may
// be the memory of the input.

#include "backend/cpu/simd/functions_inl.h"

inline Floats clip(Floats x, float low, float high) {
  const Floats raised = choose(x < low, broadcast(low), x);
  return choose(raised > high, broadcast(high), raised);
}
inline Floats positive_part(Floats x) { return choose(x < 0.0f, Floats{}, x); }
// 1 or 0.
inline Floats indicator(Ints mask) { return choose(mask, broadcast(1.0f), Floats{}); }

// Each: value(x), and slope at the x or y that slope_needs_output says.
struct GeneralRelu {
  static Floats value(const ActivationNumbers& n, Floats x) {
    Floats y = n.threshold != 0.0f ? choose(x > n.threshold, x, Floats{}) : positive_part(x);
    if (n.top < __builtin_inff()) y = clip(y, 0.0f, n.top);
    return n.slope != 0.0f ? y - n.slope * positive_part(n.threshold - x) : y;
  }
  static Floats slope(const ActivationNumbers& n, Floats x) {
    Floats slope = indicator(x > n.threshold);
    slope = choose(n.passes_top ? x > n.top : x >= n.top, Floats{}, slope);
    if (n.threshold < 0.0f) {
      // A maximum cuts what a negative threshold lets through.
      const Ints cut = (x > n.threshold) & (x < 0.0f);
      if (n.top < __builtin_inff()) slope = choose(cut, Floats{}, slope);
    }
    return n.slope != 0.0f ? slope + n.slope * indicator(n.threshold - x > 0.0f) : slope;
  }
};
struct Relu6 {
  static Floats value(const ActivationNumbers&, Floats x) { return clip(x, 0.0f, 6.0f); }
  static Floats slope(const ActivationNumbers&, Floats y) {
    return indicator((y > 0.0f) & (y < 6.0f));
  }
};
struct LeakyRelu {
  static Floats value(const ActivationNumbers& n, Floats x) {
    return choose(x > 0.0f, x, n.slope * x);
  }
  static Floats slope(const ActivationNumbers& n, Floats r) {
    return choose(r > 0.0f, broadcast(1.0f), broadcast(n.slope));
  }
};
struct Sigmoid {
  static Floats value(const ActivationNumbers&, Floats x) { return sigmoid_of(x); }
  static Floats slope(const ActivationNumbers&, Floats y) { return y * (1.0f - y); }
};
struct Tanh {
  static Floats value(const ActivationNumbers&, Floats x) { return tanh_of(x); }
  static Floats slope(const ActivationNumbers&, Floats y) { return 1.0f - y * y; }
};
struct Elu {
  static Floats value(const ActivationNumbers& n, Floats x) {
    return choose(x > 0.0f, x, n.alpha * expm1_negative(choose(x > 0.0f, Floats{}, x)));
  }
  static Floats slope(const ActivationNumbers& n, Floats y) {
    return choose(y > 0.0f, broadcast(1.0f), y + n.alpha);
  }
};
struct Selu {
  static constexpr float kScale = 1.0507009873554804934193349852946f;
  static constexpr float kScaleAlpha = 1.7580993408473768599402175208123f;
  static Floats value(const ActivationNumbers&, Floats x) {
    const Floats below = kScaleAlpha * expm1_negative(choose(x > 0.0f, Floats{}, x));
    return choose(x < 0.0f, below, kScale * x);
  }
  static Floats slope(const ActivationNumbers&, Floats y) {
    return choose(y < 0.0f, y + kScaleAlpha, broadcast(kScale));
  }
};
struct Softsign {
  static Floats value(const ActivationNumbers&, Floats x) { return x / (1.0f + magnitude(x)); }
  static Floats slope(const ActivationNumbers&, Floats x) {
    const Floats d = 1.0f + magnitude(x);
    return 1.0f / (d * d);
  }
};
struct Gelu {
  static Floats value(const ActivationNumbers&, Floats x) { return x * normal_cdf(x); }
  static Floats slope(const ActivationNumbers&, Floats x) {
    const Floats density = exp_negative(-0.5f * x * x) * 0.398942280401432678f;
    return normal_cdf(x) + x * density;
  }
};
struct GeluTanh {
  static Floats inner(Floats x) {
    return tanh_of(0.797884560802865356f * (x + 0.044715f * x * x * x));
  }
  static Floats value(const ActivationNumbers&, Floats x) { return 0.5f * x * (1.0f + inner(x)); }
  static Floats slope(const ActivationNumbers&, Floats x) {
    const Floats t = inner(x);
    const Floats rise = 0.797884560802865356f * (1.0f + 0.134145f * x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * rise;
  }
};
struct Silu {
  static Floats value(const ActivationNumbers&, Floats x) { return x * sigmoid_of(x); }
  static Floats slope(const ActivationNumbers&, Floats x) {
    const Floats s = sigmoid_of(x);
    return s * (1.0f + x * (1.0f - s));
  }
};
struct HardSigmoid {
  static Floats value(const ActivationNumbers&, Floats x) {
    return clip(x + 3.0f, 0.0f, 6.0f) / 6.0f;
  }
  static Floats slope(const ActivationNumbers&, Floats x) {
    const Floats shifted = x + 3.0f;
    return choose((shifted > 0.0f) & (shifted < 6.0f), broadcast(1.0f / 6.0f), Floats{});
  }
};
struct HardSilu {
  static Floats value(const ActivationNumbers& n, Floats x) { return x * HardSigmoid::value(n, x); }
  static Floats slope(const ActivationNumbers& n, Floats x) {
    return HardSigmoid::value(n, x) + x * HardSigmoid::slope(n, x);
  }
};
struct HardTanh {
  static Floats value(const ActivationNumbers&, Floats x) { return clip(x, -1.0f, 1.0f); }
  static Floats slope(const ActivationNumbers&, Floats y) {
    return indicator((y >= -1.0f) & (y <= 1.0f));
  }
};

#define PLIMSOLL_ACTIVATION(name, Kind)                                                           \
  template <typename T>                                                                           \
  void name##_values(const ActivationNumbers& n, const T* x, T* y, int64_t count) {               \
    for_each_vector(count, [&](auto lanes) { lanes.put(y, Kind::value(n, lanes.get(x))); });      \
  }                                                                                               \
  template <typename T>                                                                           \
  void name##_slopes(const ActivationNumbers& n, const T* dy, const T* r, T* dx, int64_t count) { \
    for_each_vector(                                                                              \
        count, [&](auto lanes) { lanes.put(dx, lanes.get(dy) * Kind::slope(n, lanes.get(r))); }); \
  }
PLIMSOLL_ACTIVATION(general_relu, GeneralRelu)
PLIMSOLL_ACTIVATION(relu6, Relu6)
PLIMSOLL_ACTIVATION(leaky_relu, LeakyRelu)
PLIMSOLL_ACTIVATION(sigmoid, Sigmoid)
PLIMSOLL_ACTIVATION(tanh, Tanh)
PLIMSOLL_ACTIVATION(elu, Elu)
PLIMSOLL_ACTIVATION(selu, Selu)
PLIMSOLL_ACTIVATION(softsign, Softsign)
PLIMSOLL_ACTIVATION(gelu, Gelu)
PLIMSOLL_ACTIVATION(gelu_tanh, GeluTanh)
PLIMSOLL_ACTIVATION(silu, Silu)
PLIMSOLL_ACTIVATION(hard_sigmoid, HardSigmoid)
PLIMSOLL_ACTIVATION(hard_silu, HardSilu)
PLIMSOLL_ACTIVATION(hard_tanh, HardTanh)
#undef PLIMSOLL_ACTIVATION

template <typename T>
void relu_values(const ActivationNumbers&, const T* x, T* y, int64_t count) {
  for_each_vector(count, [&](auto lanes) { lanes.put(y, positive_part(lanes.get(x))); });
}
// dy where the reference is positive, else 0, whatever dy is.
template <typename T>
void relu_slopes(const ActivationNumbers&, const T* dy, const T* r, T* dx, int64_t count) {
  for_each_vector(count, [&](auto lanes) {
    lanes.put(dx, choose(lanes.get(r) > 0.0f, lanes.get(dy), Floats{}));
  });
}
// The same from bits; dy, bits and dx begin at a byte's first bit.
template <typename T>
void relu_grad_bits(const T* dy, const uint8_t* bits, T* dx, int64_t count) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    uint16_t word;
    __builtin_memcpy(&word, bits + i / 8, sizeof(word));
    for (int part = 0; part < 16; part += kLanes) {
      store(dx + i + part, keep_lanes(load(dy + i + part), uint32_t{word} >> part));
    }
  }
  for (; i < count; ++i) put_number(dx + i, (bits[i / 8] >> (i % 8)) & 1 ? number(dy + i) : 0.0f);
}
// One bit a number, rounded up to whole bytes.
template <typename T>
void encode_positive_bits(const T* x, uint8_t* bits, int64_t count) {
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
      value |= static_cast<unsigned>(number(x + i + bit) > 0.0f) << bit;
    }
    bits[i / 8] = static_cast<uint8_t>(value);
  }
}
