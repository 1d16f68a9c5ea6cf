#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "backend/kernel/moments_join.h"
#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "backend/reference/ranks/company.h"
#include "base/error.h"
#include "base/format.h"

// Sums of ranks, added up in the tree in which lanes are.
//
// Ranks that differ in one bit exchange, from the lowest bit on, so that each of the two then has
// the sum of twice as many. What is added goes in halves: of each pair, one adds up the first half
// of what both have and the other one the second, and afterwards the way is gone back, so that all
// have all. What is merged is small, and exchanged whole.

namespace plimsoll::backend::reference {
namespace {

constexpr size_t kMostLevels = 31;

// The halves of a part: of the lower rank, and of the other one.
std::array<Span, 2> halves_of(Span part) {
  const int64_t middle = part.begin + (part.end - part.begin) / 2;
  return {Span{part.begin, middle}, Span{middle, part.end}};
}

template <typename T>
void add_ranks(const Company& company, T* sum, T* received, int64_t count) {
  const int rank = company.ranks.rank();
  std::array<Span, kMostLevels> parts{};
  size_t level = 0;
  parts[0] = {0, count};
  for (int width = 1; width < company.ranks.count(); width *= 2, ++level) {
    const std::array<Span, 2> halves = halves_of(parts[level]);
    const bool upper = (rank & width) != 0;
    const Span own = halves[upper ? 1 : 0];
    company.ranks.swap(rank ^ width, bytes_of(sum, halves[upper ? 0 : 1]),
                       room_of(received, {0, own.count()}));
    add_received(company, width, sum + own.begin, received, own.count());
    parts[level + 1] = own;
  }
  for (int width = company.ranks.count() / 2; width > 0; width /= 2, --level) {
    const std::array<Span, 2> halves = halves_of(parts[level - 1]);
    const bool upper = (rank & width) != 0;
    company.ranks.swap(rank ^ width, bytes_of(sum, halves[upper ? 1 : 0]),
                       room_of(sum, halves[upper ? 0 : 1]));
  }
}

template <typename T>
void merge_ranks(const Company& company, T* moments, T* received, int64_t count, int64_t rows) {
  const int rank = company.ranks.rank();
  const int64_t channels = count / 2;
  for (int width = 1; width < company.ranks.count(); width *= 2) {
    const int peer = rank ^ width;
    company.ranks.swap(peer, bytes_of(moments, {0, count}), room_of(received, {0, count}));
    const int64_t here = company.samples_of(run_begin(rank, width), width) * rows;
    const int64_t there = company.samples_of(run_begin(peer, width), width) * rows;
    if (there == 0) continue;
    if (here == 0) {
      std::copy_n(received, count, moments);
      continue;
    }
    const bool upper = (rank & width) != 0;
    T* const to = upper ? received : moments;
    const T* const from = upper ? moments : received;
    join_moments<T>({from, from + channels}, static_cast<double>(upper ? here : there),
                    {to, to + channels}, static_cast<double>(upper ? there : here), channels);
    if (upper) std::copy_n(received, count, moments);
  }
}

template <typename T>
std::unique_ptr<Kernel> make_typed(const Problem& problem) {
  const int64_t rows = problem.attributes.get_int("rows_per_sample");
  return kernel_of([rows](const KernelCall& call) {
    const Operand& out = call.outputs[0];
    T* const sum = data_of<T>(out);
    const int64_t count = count_of(out);
    if (call.inputs[0].data != out.data) std::copy_n(data_of<T>(call.inputs[0]), count, sum);
    finish_exchange(call);
    if (!has_company(call)) return;
    const Company company(*call.step);
    T* const received = reinterpret_cast<T*>(call.scratch);
    if (rows > 0) {
      merge_ranks(company, sum, received, count, rows);
    } else {
      add_ranks(company, sum, received, count);
    }
  });
}

std::unique_ptr<Kernel> make_rank_sum(const Problem& problem) {
  switch (problem.inputs[0].dtype) {
    case DType::kFloat32:
      return make_typed<float>(problem);
    case DType::kFloat64:
      return make_typed<double>(problem);
    case DType::kInt32:
      return make_typed<int32_t>(problem);
    case DType::kInt64:
      return make_typed<int64_t>(problem);
    default:
      throw Error(ErrorKind::kModel,
                  fmt::format("{}: expected a sum of float32, float64, int32 or int64 over ranks, "
                              "received {}. Train in one process.",
                              problem.node.name, to_string(problem.inputs[0].dtype)));
  }
}

// What the other rank has of a half, or of all.
Bytes received_bytes(const Problem& problem) {
  const graph::ValueType& x = problem.inputs[0];
  const int64_t count = x.shape.element_count(1);
  const bool whole = problem.attributes.get_int("rows_per_sample") > 0;
  return element_bytes(x.dtype) * (whole ? count : count - count / 2);
}

// Samples of ranks that differ in one bit, from the lowest bit on, put one after the other.
void gather_ranks(const Company& company, std::byte* all, int64_t sample_bytes) {
  const int rank = company.ranks.rank();
  const auto place_of = [&](int first, int width) {
    const int64_t begin = company.samples_of(0, first);
    return std::span(all + begin * sample_bytes,
                     static_cast<size_t>(company.samples_of(first, width) * sample_bytes));
  };
  for (int width = 1; width < company.ranks.count(); width *= 2) {
    const int peer = rank ^ width;
    company.ranks.swap(peer, place_of(run_begin(rank, width), width),
                       place_of(run_begin(peer, width), width));
  }
}

std::unique_ptr<Kernel> make_rank_gather(const Problem& problem) {
  const int64_t samples = problem.attributes.get_int("samples");
  const graph::ValueType& x = problem.inputs[0];
  const int64_t sample_bytes = (element_bytes(x.dtype) * x.shape.elements_per_sample()).count();
  return kernel_of([=, batch = problem.batch](const KernelCall& call) {
    finish_exchange(call);
    std::byte* const all = call.outputs[0].data;
    const bool shared = has_company(call);
    const int64_t first = shared ? call.step->first_sample : 0;
    const int64_t own = std::min(batch, samples - first);
    std::memcpy(all + first * sample_bytes, call.inputs[0].data,
                static_cast<size_t>(own * sample_bytes));
    // Alone, what nobody sent is 0.
    if (!shared) {
      std::memset(all + own * sample_bytes, 0, static_cast<size_t>((samples - own) * sample_bytes));
      return;
    }
    gather_ranks(Company(*call.step), all, sample_bytes);
  });
}

constexpr KernelEntry kEntries[] = {
    {"rank_gather", make_rank_gather, nullptr, true, true},
    {"rank_sum", make_rank_sum, received_bytes},
};

}  // namespace

std::span<const KernelEntry> rank_sum_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
