#pragma once

// Merges the moments of two sets of rows.

#include <cstdint>

namespace plimsoll::backend {

// Means and sums of squared differences from them, of so many channels.
template <typename T>
struct Moments {
  T* mean = nullptr;
  T* m2 = nullptr;
};

// Merges those of `rows` rows into those of `before` rows.
// Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances" (1979).
template <typename T>
void join_moments(const Moments<const T>& from, double rows, const Moments<T>& to, double before,
                  int64_t channels) {
  const double total = before + rows;
  for (int64_t c = 0; c < channels; ++c) {
    const double delta = static_cast<double>(from.mean[c]) - static_cast<double>(to.mean[c]);
    to.m2[c] = static_cast<T>(static_cast<double>(to.m2[c]) + static_cast<double>(from.m2[c]) +
                              delta * delta * (before * rows / total));
    to.mean[c] = static_cast<T>(static_cast<double>(to.mean[c]) + delta * (rows / total));
  }
}

}  // namespace plimsoll::backend
