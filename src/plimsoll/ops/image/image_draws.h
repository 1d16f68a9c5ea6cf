#pragma once

// What layers that change images at random draw: the one definition that all backends share.
//
// A draw is a function of (seed, step, call site, row of the global batch), so it depends neither
// on how the batch is cut nor on who computes it, and nothing is stored: a gradient draws again.
// What Keras draws once for a whole batch has a stream of its own, and so has noise, of which each
// element draws.

#include <cstdint>

#include "base/hash.h"
#include "base/philox.h"

namespace plimsoll::ops {

class ImageDraws {
 public:
  ImageDraws(uint64_t seed, int64_t step, int64_t site)
      : rows_(stream(kRows, seed, step, site)),
        batch_(stream(kBatch, seed, step, site)),
        noise_(stream(kNoise, seed, step, site)) {}

  // In [0, 1): number `k` (below 8) of a row of the global batch.
  float of_row(int64_t row, int k) const {
    return rows_.uniform(static_cast<uint64_t>(row) * kPerRow + static_cast<uint64_t>(k));
  }
  // In [0, 1): number `k` of the whole batch.
  float of_batch(int k) const { return batch_.uniform(static_cast<uint64_t>(k)); }
  // Standard normal, of an element of the global batch.
  float noise(int64_t element) const { return noise_.normal(static_cast<uint64_t>(element)); }

 private:
  // No other uses of the seed share them: "imgr", "imgb", "imgn".
  static constexpr uint64_t kRows = 0x696d6772u;
  static constexpr uint64_t kBatch = 0x696d6762u;
  static constexpr uint64_t kNoise = 0x696d676eu;
  static constexpr uint64_t kPerRow = 8;

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
};

// From `lower` to `upper` for a draw in [0, 1), rounded as TensorFlow rounds it.
inline float between(double lower, double upper, float draw) {
  const auto low = static_cast<float>(lower);
  return draw * (static_cast<float>(upper) - low) + low;
}

}  // namespace plimsoll::ops
