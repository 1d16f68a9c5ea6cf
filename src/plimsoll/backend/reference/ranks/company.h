#pragma once

// Who exchanges in a step, and which bytes of an operand a message has.
//
// Ranks that differ in one bit exchange, from the lowest bit on: those that have done so up to a
// width are an aligned run of that many.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/kernel/kernel.h"
#include "base/ranks.h"

namespace plimsoll::backend::reference {

// Elements [begin, end) of an operand.
struct Span {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
};

struct Company {
  Ranks& ranks;
  int64_t samples;  // of the step
  int64_t each;     // of a full rank

  explicit Company(const StepContext& step)
      : ranks(*step.ranks), samples(step.samples), each(step.samples_each) {}

  // Samples of the ranks [first, first + count).
  int64_t samples_of(int first, int count) const {
    return std::min(samples, (first + count) * each) - std::min(samples, first * each);
  }
};

// Whether other ranks take part in the call: none where a kernel is tried or measured alone.
inline bool has_company(const KernelCall& call) {
  return call.step != nullptr && call.step->ranks != nullptr;
}

// What an exchange gives the next one, which only has to come after it.
inline void finish_exchange(const KernelCall& call) {
  std::byte* const number = call.outputs.back().data;
  if (number != nullptr) *reinterpret_cast<float*>(number) = 0;
}

// The first of a run of ranks of that width.
inline int run_begin(int rank, int width) { return rank & ~(width - 1); }

template <typename T>
std::span<const std::byte> bytes_of(const T* data, Span part) {
  return std::as_bytes(std::span(data + part.begin, static_cast<size_t>(part.count())));
}

template <typename T>
std::span<std::byte> room_of(T* data, Span part) {
  return std::as_writable_bytes(std::span(data + part.begin, static_cast<size_t>(part.count())));
}

// Adds what the other one of two neighbouring runs of ranks has, in the order of the runs. A run
// without samples has no place in the tree.
template <typename T>
void add_received(const Company& company, int width, T* sum, const T* received, int64_t count) {
  const int rank = company.ranks.rank();
  const bool upper = (rank & width) != 0;
  const bool here = company.samples_of(run_begin(rank, width), width) > 0;
  const bool there = company.samples_of(run_begin(rank ^ width, width), width) > 0;
  for (int64_t i = 0; there && i < count; ++i) {
    const T other = received[i];
    sum[i] = !here ? other : upper ? other + sum[i] : sum[i] + other;
  }
}

}  // namespace plimsoll::backend::reference
