#include <algorithm>
#include <cstdint>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "backend/reference/ranks/company.h"
#include "base/ceil_div.h"
#include "graph/rank_message.h"

// Parts of values, one on each rank (ops/training/rank_parts.cpp).
//
// A sum is scattered piece by piece, so that what is exchanged at once takes little memory however
// large the sum is. A piece has as many elements of each rank's part, those of ranks that differ in
// the highest bit side by side: with each exchange the half that is another run's is given away,
// and what is added up is added in the order of rank_sum.

namespace plimsoll::backend::reference {
namespace {

// A value in parts.
struct Parts {
  int64_t count = 1;     // of parts
  int64_t elements = 0;  // of a part
  int64_t whole = 0;     // elements in all

  // Elements of the parts [first, first + width).
  Span span_of(int64_t first, int64_t width) const {
    return {std::min(whole, first * elements), std::min(whole, (first + width) * elements)};
  }
};

Parts parts_of(const Problem& problem, const graph::ValueType& whole,
               const graph::ValueType& part) {
  return {problem.attributes.get_int("parts"), part.shape.element_count(1),
          whole.shape.element_count(1)};
}

int rank_of(const KernelCall& call) { return has_company(call) ? call.step->ranks->rank() : 0; }

// Copies elements [begin, begin + count) of a part; what lies after the end is 0.
template <typename T>
void copy_piece(const T* whole, const Parts& parts, int64_t part, int64_t begin, int64_t count,
                T* to) {
  const int64_t first = std::min(parts.whole, part * parts.elements + begin);
  const int64_t there = std::min(parts.whole - first, count);
  std::copy_n(whole + first, there, to);
  std::fill_n(to + there, count - there, T(0));
}

// Where the elements of a rank lie in a piece: its bits in reverse, since the lowest one halves
// first.
int64_t place_of(int64_t rank, int64_t count) {
  int64_t place = 0;
  for (int64_t bit = 1; bit < count; bit *= 2) place = 2 * place + ((rank & bit) != 0 ? 1 : 0);
  return place;
}

// Elements of each part in a piece.
int64_t piece_elements(const Parts& parts, int64_t element_bytes) {
  const int64_t most = graph::kScatteredBytes / (parts.count * element_bytes);
  return std::min(parts.elements, std::max<int64_t>(most, 1));
}

// Adds a piece up over all ranks; what is this rank's comes out where it says.
template <typename T>
const T* add_piece(const Company& company, T* piece, int64_t count, T* received) {
  const int rank = company.ranks.rank();
  for (int width = 1; width < company.ranks.count(); width *= 2) {
    count /= 2;
    const bool upper = (rank & width) != 0;
    T* const own = piece + (upper ? count : 0);
    const T* const others = piece + (upper ? 0 : count);
    company.ranks.swap(rank ^ width, bytes_of(others, {0, count}), room_of(received, {0, count}));
    add_received(company, width, own, received, count);
    piece = own;
  }
  return piece;
}

template <typename T>
void scatter(const KernelCall& call, const Parts& parts) {
  const T* const x = data_of<const T>(call.inputs[0]);
  T* const part = data_of<T>(call.outputs[0]);
  if (!has_company(call)) {
    copy_piece(x, parts, 0, 0, parts.elements, part);
    return;
  }
  const Company company(*call.step);
  const int64_t most = piece_elements(parts, sizeof(T));
  T* const piece = reinterpret_cast<T*>(call.scratch);
  T* const received = piece + parts.count * most;
  for (int64_t begin = 0; begin < parts.elements; begin += most) {
    const int64_t each = std::min(most, parts.elements - begin);
    for (int64_t rank = 0; rank < parts.count; ++rank) {
      copy_piece(x, parts, rank, begin, each, piece + place_of(rank, parts.count) * each);
    }
    const T* const own = add_piece(company, piece, parts.count * each, received);
    std::copy_n(own, each, part + begin);
  }
}

// A kernel that does run(call, zero of the operand's type) and gives the next exchange its number.
template <typename Run>
std::unique_ptr<Kernel> exchange_of(const Problem& problem, const Run& run) {
  return for_float(problem.inputs[0].dtype, [&run](auto zero) {
    return kernel_of([run, zero](const KernelCall& call) {
      finish_exchange(call);
      run(call, zero);
    });
  });
}

std::unique_ptr<Kernel> make_rank_scatter(const Problem& problem) {
  const Parts parts = parts_of(problem, problem.inputs[0], problem.outputs[0]);
  return exchange_of(problem, [parts](const KernelCall& call, auto zero) {
    scatter<decltype(zero)>(call, parts);
  });
}

// A piece, and the half of it that the other rank sends.
Bytes scatter_scratch(const Problem& problem) {
  const Parts parts = parts_of(problem, problem.inputs[0], problem.outputs[0]);
  const Bytes element = element_bytes(problem.inputs[0].dtype);
  const int64_t piece = parts.count * piece_elements(parts, element.count());
  return element * (piece + ceil_div(piece, 2));
}

std::unique_ptr<Kernel> make_rank_part(const Problem& problem) {
  const Parts parts = parts_of(problem, problem.inputs[0], problem.outputs[0]);
  return for_float(problem.inputs[0].dtype, [parts](auto zero) {
    using T = decltype(zero);
    return kernel_of([parts](const KernelCall& call) {
      copy_piece(data_of<const T>(call.inputs[0]), parts, rank_of(call), 0, parts.elements,
                 data_of<T>(call.outputs[0]));
    });
  });
}

template <typename T>
void gather_parts(const KernelCall& call, const Parts& parts) {
  const int rank = rank_of(call);
  T* const whole = data_of<T>(call.outputs[0]);
  const Span own = parts.span_of(rank, 1);
  std::copy_n(data_of<const T>(call.inputs[0]), own.count(), whole + own.begin);
  if (!has_company(call)) {
    std::fill_n(whole + own.end, parts.whole - own.end, T(0));
    return;
  }
  Ranks& ranks = *call.step->ranks;
  for (int width = 1; width < ranks.count(); width *= 2) {
    const int peer = rank ^ width;
    ranks.swap(peer, bytes_of(whole, parts.span_of(run_begin(rank, width), width)),
               room_of(whole, parts.span_of(run_begin(peer, width), width)));
  }
}

std::unique_ptr<Kernel> make_rank_whole(const Problem& problem) {
  const Parts parts = parts_of(problem, problem.outputs[0], problem.inputs[0]);
  return exchange_of(problem, [parts](const KernelCall& call, auto zero) {
    gather_parts<decltype(zero)>(call, parts);
  });
}

// From rank to rank, and from the last one to all.
template <typename T>
double sum_squares(const KernelCall& call, const Parts& parts) {
  const int rank = rank_of(call);
  const int count = has_company(call) ? call.step->ranks->count() : 1;
  Ranks* const ranks = count > 1 ? call.step->ranks : nullptr;
  double sum = 0;
  const auto out = std::as_bytes(std::span(&sum, 1));
  const auto in = std::as_writable_bytes(std::span(&sum, 1));
  if (rank > 0) ranks->swap(rank - 1, {}, in);
  const T* const x = data_of<const T>(call.inputs[0]);
  const int64_t own = parts.span_of(rank, 1).count();
  for (int64_t i = 0; i < own; ++i) {
    const auto value = static_cast<double>(x[i]);
    sum += value * value;
  }
  if (rank + 1 < count) ranks->swap(rank + 1, out, {});
  const int from_last = count - 1 - rank;
  for (int width = 1; width < count; width *= 2) {
    if (from_last < width) {
      ranks->swap(rank - width, out, {});
    } else if (from_last < 2 * width) {
      ranks->swap(rank + width, {}, in);
    }
  }
  return sum;
}

std::unique_ptr<Kernel> make_rank_squares(const Problem& problem) {
  Parts parts;
  parts.count = problem.attributes.get_int("parts");
  parts.elements = problem.inputs[0].shape.element_count(1);
  parts.whole = 1;
  for (int64_t dim : problem.attributes.get_ints("shape")) parts.whole *= dim;
  const double factor = problem.attributes.get_double("factor");
  return exchange_of(problem, [parts, factor](const KernelCall& call, auto zero) {
    using T = decltype(zero);
    *data_of<T>(call.outputs[0]) =
        static_cast<T>(factor) * static_cast<T>(sum_squares<T>(call, parts));
  });
}

std::unique_ptr<Kernel> make_batch_mark(const Problem&) {
  return kernel_of([](const KernelCall& call) { *data_of<float>(call.outputs[0]) = 0; });
}

constexpr KernelEntry kEntries[] = {
    {"batch_mark", make_batch_mark, nullptr, true, true},
    {"rank_part", make_rank_part},
    {"rank_scatter", make_rank_scatter, scatter_scratch},
    {"rank_squares", make_rank_squares},
    {"rank_whole", make_rank_whole},
};

}  // namespace

std::span<const KernelEntry> rank_part_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
