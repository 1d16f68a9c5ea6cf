#pragma once

// Counts calls of operator new, and the bytes that live, in the test program that lists
// allocation_counter.cpp among its sources.

#include <cstdint>

namespace plimsoll::test {

int64_t allocation_count();

int64_t live_bytes();
int64_t peak_bytes();      // since it was forgotten
void forget_peak_bytes();  // from now on it is what lives

// The most bytes that lived at once while `body` ran, beyond those before.
template <typename Body>
int64_t peak_of(const Body& body) {
  const int64_t before = live_bytes();
  forget_peak_bytes();
  body();
  return peak_bytes() - before;
}

}  // namespace plimsoll::test
