#pragma once

// Splits a kernel's work into a fixed number of parts, and keeps rounding alike in all of them.
//
// How many threads run the parts is another matter (ThreadLimit). What a part computes is a
// function of the counts alone: contiguous parts of equal size, in order. Sums over parts go
// through scratch and are folded in part order, never by arrival. While a kernel runs, denormal
// numbers count as zero in every thread, so that a result does not depend on who computed it. The
// threads are team.h's.

#include <cstdint>

#include "base/ceil_div.h"

namespace plimsoll::backend::cpu {

// At most so many threads run the parts of this host thread's kernels while the object lives, from
// 1 on; without one, there is a thread for each part.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int before_;
};

// [begin, end) of part `part` of `count` things, boundaries at multiples of `grain`.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};
constexpr Range part_of(int64_t count, int64_t grain, int part, int parts) {
  const int64_t grains = ceil_div(count, grain);
  const auto cut = [&](int64_t i) {
    const int64_t at = grains * i / parts * grain;
    return at < count ? at : count;
  };
  return {cut(part), cut(part + 1)};
}

// Work below this many bytes is done by one thread: waking another takes as long.
inline constexpr int64_t kBytesWorthATeam = 96 << 10;
// Parts for work that touches that many bytes.
constexpr int parts_for(int64_t bytes, int most_parts) {
  return bytes < kBytesWorthATeam ? 1 : most_parts;
}

namespace threads_impl {
using PartFunction = void (*)(const void* body, int part);
void run_parts(int parts, PartFunction function, const void* body) noexcept;
}  // namespace threads_impl

// body(part) for each part, shared out among the threads of this host thread's team. A body that
// asks for parts itself gets them one after the other.
template <typename Body>
void for_each_part(int parts, const Body& body) noexcept {
  if (parts == 1) {
    body(0);
    return;
  }
  threads_impl::run_parts(
      parts, [](const void* erased, int part) { (*static_cast<const Body*>(erased))(part); },
      &body);
}

// body(begin, end) over [0, count) in `parts` contiguous parts.
template <typename Body>
void for_each_range(int64_t count, int64_t grain, int parts, const Body& body) noexcept {
  for_each_part(parts, [&](int part) {
    const Range range = part_of(count, grain, part, parts);
    if (range.begin < range.end) body(range.begin, range.end);
  });
}

}  // namespace plimsoll::backend::cpu
