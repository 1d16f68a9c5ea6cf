#pragma once

// The numbers that initializers draw: the one definition that all backends share.
//
// Element i of a variable is a function of the run's seed, the initializer's site and i alone.
// Distributions are Keras's (the normal ones in float32; the truncated one lies within two standard
// deviations); the numbers themselves are ours.

#include <cmath>
#include <cstdint>

#include "base/hash.h"
#include "base/philox.h"

namespace plimsoll::ops {

inline Philox initializer_stream(uint64_t seed, int64_t site) {
  return Philox(seed, Fingerprint()
                          .add(0x696e6974u)  // "init": no other use of the seed shares it
                          .add(static_cast<uint64_t>(site))
                          .value());
}

// In [minval, maxval); `u` is the stream's uniform number i.
inline double uniform_from_draw(float u, double minval, double maxval) {
  return minval + static_cast<double>(u) * (maxval - minval);
}

// `z` is the stream's normal number i.
inline double normal_from_draw(float z, double mean, double stddev) {
  return mean + static_cast<double>(z) * stddev;
}

// Redraws until the number is within two standard deviations; attempt k of element i of n reads
// normal number i + k n, the first of which is `z`. After so many attempts that it does not happen,
// the border is taken.
inline double truncated_normal_from_draw(const Philox& stream, float z, uint64_t i, uint64_t n,
                                         double mean, double stddev) {
  constexpr uint64_t kAttempts = 64;
  for (uint64_t attempt = 1; attempt <= kAttempts; ++attempt) {
    if (z > -2.0f && z < 2.0f) return mean + static_cast<double>(z) * stddev;
    if (attempt < kAttempts) z = stream.normal(i + attempt * n);
  }
  return mean + 2.0 * stddev;
}

// Fills `q` (rows × columns, row-major, rows ≥ columns) with orthonormal columns: Gram–Schmidt, run
// twice, on normal numbers. Equals Q of the QR decomposition with a positive diagonal of R, which
// is what makes the result uniformly distributed.
inline void fill_orthonormal(const Philox& stream, int64_t rows, int64_t columns, double* q) {
  for (int64_t i = 0; i < rows * columns; ++i) {
    q[i] = static_cast<double>(stream.normal(static_cast<uint64_t>(i)));
  }
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t pass = 0; pass < 2; ++pass) {
      for (int64_t other = 0; other < column; ++other) {
        double dot = 0;
        for (int64_t r = 0; r < rows; ++r) dot += q[r * columns + other] * q[r * columns + column];
        for (int64_t r = 0; r < rows; ++r) q[r * columns + column] -= dot * q[r * columns + other];
      }
    }
    double square = 0;
    for (int64_t r = 0; r < rows; ++r) square += q[r * columns + column] * q[r * columns + column];
    const double scale = square > 0 ? 1.0 / std::sqrt(square) : 0.0;
    for (int64_t r = 0; r < rows; ++r) q[r * columns + column] *= scale;
  }
}

}  // namespace plimsoll::ops
