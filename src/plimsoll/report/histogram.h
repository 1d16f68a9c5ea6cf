#pragma once

// How the numbers of a tensor are spread, as TensorBoard draws it.
//
//   least                                       largest
//     |‾‾‾‾‾‾|‾‾‾‾‾‾|‾‾‾‾‾‾| …  |‾‾‾‾‾‾|‾‾‾‾‾‾|        thirty buckets of one width; the last one
//                                                      holds the largest number too
//
// Where all numbers are equal every bucket is of width 0 and the last one has them all, as
// tf.summary.histogram has it. Numbers that are not finite are left out. The tensor is read twice,
// in pieces: a buffer of 64 KiB is all that is held.

#include <array>
#include <cstdint>

#include "base/tensor_io.h"

namespace plimsoll::report {

struct Histogram {
  static constexpr int kBuckets = 30;
  double least = 0;
  double largest = 0;
  std::array<int64_t, kBuckets> counts{};
  // Where bucket `i` begins; edge(kBuckets) is the end of the last one.
  double edge(int i) const { return least + (largest - least) * i / kBuckets; }
  friend bool operator==(const Histogram&, const Histogram&) = default;
};

// Takes a tensor of float32. Throws what reading throws.
Histogram make_histogram(TensorSource& tensors, size_t index);

}  // namespace plimsoll::report
