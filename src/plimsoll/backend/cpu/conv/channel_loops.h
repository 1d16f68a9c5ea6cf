#pragma once

// The loops over rows of channels that BatchNormalization's kernels share (channels_inl.h says
// what each computes), picked for an instruction set. Sums are stored, not added to.

#include <cstdint>

#include "backend/cpu/simd/isa.h"

namespace plimsoll::backend::cpu {

// Rows of a group of partial sums; sums over stretches of a multiple of it that are added up in
// double are those of one stretch.
inline constexpr int64_t kChannelGroupRows = 64;

// T: float, or uint16_t for bfloat16.
template <typename T>
struct ChannelLoops {
  // (x, rows, channels, group, sums): `group` holds a number a channel.
  void (*totals)(const T*, int64_t, int64_t, float*, double*);
  // (x, mean, rows, channels, group, squares)
  void (*squares)(const T*, const float*, int64_t, int64_t, float*, double*);
  // (dy, x, mean, rows, channels, group, sums, products): two numbers a channel.
  void (*products)(const T*, const T*, const float*, int64_t, int64_t, float*, double*, double*);
  // (x, mean, scale, shift, channels, y, begin, end)
  void (*normalize)(const T*, const float*, const float*, const float*, int64_t, T*, int64_t,
                    int64_t);
  // (dy, x, mean, mean of dy, slope, scale, channels, dx, begin, end)
  void (*normalize_grad)(const T*, const T*, const float*, const float*, const float*, const float*,
                         int64_t, T*, int64_t, int64_t);
};
template <typename T>
ChannelLoops<T> channel_loops(Isa isa);

// Number, mean and Σ (x − mean)² of some rows.
struct ChannelMoments {
  double rows = 0, mean = 0, m2 = 0;
  // Joins them with those of further rows: Chan, Golub, LeVeque, "Updating formulae and a pairwise
  // algorithm for computing sample variances" (1979).
  void add(const ChannelMoments& other) {
    const double total = rows + other.rows;
    const double delta = other.mean - mean;
    m2 += other.m2 + delta * delta * (rows * other.rows / total);
    mean += delta * (other.rows / total);
    rows = total;
  }
};

}  // namespace plimsoll::backend::cpu
