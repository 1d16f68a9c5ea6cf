#pragma once

// Mean and spread of each channel over the rows of an operand, in two passes and in double.

#include <algorithm>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {

template <int kDoublesPerChannel>
Bytes channel_scratch(const Problem& problem) {
  const Shape& x = problem.inputs[0].shape;
  return Bytes(kDoublesPerChannel * x[x.rank() - 1].count * int64_t{sizeof(double)});
}

// means[c], and m2s[c] = Σ (x − mean)²; both have room for a number a channel.
template <typename T>
void find_channel_moments(const Operand& x, double* means, double* m2s) {
  const int64_t channels = row_length(x);
  const int64_t row_count = count_of(x) / channels;
  const auto rows = static_cast<double>(row_count);
  std::fill_n(means, channels, 0.0);
  std::fill_n(m2s, channels, 0.0);
  for_each_index<1>(row_dims(x), {x.strides}, [&](const auto& at, int64_t) {
    const T* in = data_of<T>(x) + at[0];
    for (int64_t c = 0; c < channels; ++c) means[c] += static_cast<double>(in[c]);
  });
  for (int64_t c = 0; c < channels; ++c) means[c] /= rows;
  for_each_index<1>(row_dims(x), {x.strides}, [&](const auto& at, int64_t) {
    const T* in = data_of<T>(x) + at[0];
    for (int64_t c = 0; c < channels; ++c) m2s[c] += square(static_cast<double>(in[c]) - means[c]);
  });
}

}  // namespace plimsoll::backend::reference
