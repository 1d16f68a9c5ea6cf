#pragma once

// Ranks: processes that share one training, each with some of every step's samples.
//
// Kernels and sessions exchange bytes through this and know nothing of who carries them. Nothing is
// added on the way: sums are added up by those who exchange them, in one order on all ranks
// (graph/ranks.h).

#include <cstddef>
#include <span>
#include <string>

namespace plimsoll {

class Ranks {
 public:
  virtual ~Ranks() = default;

  // Who this is, from 0, and how many there are: a power of two.
  virtual int rank() const noexcept = 0;
  virtual int count() const noexcept = 0;

  // Sends `out` to that rank and fills `in` with what it sends here; both may be of any size, also
  // none, as long as the other rank's call says the same. Every rank makes its calls in one order.
  // After a failure it does nothing and `in` holds anything: who goes on asks check() first.
  virtual void swap(int peer, std::span<const std::byte> out, std::span<std::byte> in) noexcept = 0;

  // Throws where an exchange has failed: which rank, and why.
  virtual void check() const = 0;
};

// Whether a flag is set on any rank; every rank asks at the same place.
bool any_rank(Ranks& ranks, bool flag);

// Throws kConfig where another rank's text differs; `what` names it, as "--seed". Every rank asks
// at the same place.
void expect_equal_on(Ranks& ranks, const std::string& what, const std::string& own);

}  // namespace plimsoll
