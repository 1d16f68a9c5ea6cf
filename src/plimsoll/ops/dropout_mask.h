#pragma once

// Which elements dropout keeps: the one definition that all backends share.
//
// A draw is a function of (seed, step, call site, position of the element in the global batch), so
// it does not depend on how the batch is cut, and nothing is stored: the gradient draws again.
//
//   keep element e of sample b  ⇔  uniform(b * elements per sample + e) ≥ rate
//
// (Kept elements are scaled by 1 / (1 − rate), rounded once to the element type.)

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/hash.h"
#include "base/philox.h"

namespace plimsoll::ops {

inline Philox dropout_stream(uint64_t seed, int64_t step, int64_t site) {
  return Philox(seed, Fingerprint()
                          .add(0x64726f70u)  // "drop": no other use of the seed shares it
                          .add(static_cast<uint64_t>(site))
                          .add(static_cast<uint64_t>(step))
                          .value());
}

// destination[i] = whether element `first + i` of the global batch is kept.
inline void fill_dropout_mask(const Philox& stream, uint64_t first, float rate,
                              std::span<bool> destination) {
  std::array<float, 256> draws;
  for (size_t done = 0; done < destination.size(); done += draws.size()) {
    const size_t count = std::min(draws.size(), destination.size() - done);
    stream.fill_uniform(first + done, std::span(draws).first(count));
    for (size_t i = 0; i < count; ++i) destination[done + i] = draws[i] >= rate;
  }
}

}  // namespace plimsoll::ops
