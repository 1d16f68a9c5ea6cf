#pragma once

// What layers that change images at random draw: the one definition that all backends share.
//
// A draw is a function of (seed, step, call site, row of the global batch), so it depends neither
// on how the batch is cut nor on who computes it, and nothing is stored: a gradient draws again.
// What Keras draws once for a whole batch has a stream of its own, and so has noise, of which each
// element draws.

#include <cmath>
#include <cstdint>

#include "base/hash.h"
#include "base/philox.h"

namespace plimsoll::ops {

class ImageDraws {
 public:
  ImageDraws(uint64_t seed, int64_t step, int64_t site)
      : rows_(stream(kRows, seed, step, site)),
        batch_(stream(kBatch, seed, step, site)),
        noise_(stream(kNoise, seed, step, site)),
        shares_(stream(kShares, seed, step, site)) {}

  // In [0, 1): number `k` (below 8) of a row of the global batch.
  float of_row(int64_t row, int k) const {
    return rows_.uniform(static_cast<uint64_t>(row) * kPerRow + static_cast<uint64_t>(k));
  }
  // In [0, 1): number `k` of the whole batch.
  float of_batch(int k) const { return batch_.uniform(static_cast<uint64_t>(k)); }
  // Standard normal, of an element of the global batch.
  float noise(int64_t element) const { return noise_.normal(static_cast<uint64_t>(element)); }
  // Of a row of the global batch, from Beta(alpha, alpha), alpha > 0: the share of one of two draws
  // from Gamma(alpha), by their logarithms, for small ones are below every float.
  float beta(int64_t row, double alpha) const {
    const double apart = log_gamma_draw(2 * row + 1, alpha) - log_gamma_draw(2 * row, alpha);
    return static_cast<float>(1.0 / (1.0 + std::exp(apart)));
  }

 private:
  // No other uses of the seed share them: "imgr", "imgb", "imgn".
  static constexpr uint64_t kRows = 0x696d6772u;
  static constexpr uint64_t kBatch = 0x696d6762u;
  static constexpr uint64_t kNoise = 0x696d676eu;
  static constexpr uint64_t kShares = 0x696d6773u;  // "imgs"
  static constexpr uint64_t kPerRow = 8;

  // log of a draw from Gamma(alpha), by Marsaglia and Tsang (2000); below 1 of one from
  // Gamma(alpha + 1) times u^(1 / alpha). Nineteen of twenty attempts or more succeed.
  double log_gamma_draw(int64_t number, double alpha) const {
    constexpr uint64_t kAttempts = 31;
    const uint64_t first = static_cast<uint64_t>(number) * 4 * (kAttempts + 1);
    const auto uniform = [&](uint64_t k) {
      return (static_cast<double>(shares_.uniform(first + k)) + 0x1p-25);
    };
    const double boost = alpha < 1 ? std::log(uniform(0)) / alpha : 0.0;
    const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3.0;
    const double c = 1.0 / std::sqrt(9.0 * d);
    for (uint64_t k = 1; k <= kAttempts; ++k) {
      const double x = shares_.normal(first + 4 * k);
      const double cube = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x);
      if (!(cube > 0)) continue;
      if (std::log(uniform(4 * k + 2)) < 0.5 * x * x + d - d * cube + d * std::log(cube)) {
        return std::log(d * cube) + boost;
      }
    }
    return std::log(d) + boost;
  }

  static Philox stream(uint64_t use, uint64_t seed, int64_t step, int64_t site) {
    return Philox(seed, Fingerprint()
                            .add(use)
                            .add(static_cast<uint64_t>(site))
                            .add(static_cast<uint64_t>(step))
                            .value());
  }

  Philox rows_;
  Philox batch_;
  Philox noise_;
  Philox shares_;
};

// From `lower` to `upper` for a draw in [0, 1), rounded as TensorFlow rounds it.
inline float between(double lower, double upper, float draw) {
  const auto low = static_cast<float>(lower);
  return draw * (static_cast<float>(upper) - low) + low;
}

}  // namespace plimsoll::ops
