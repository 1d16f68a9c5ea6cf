// broadcast and sum_to of any shapes: one walk over a wide array and a small one that repeats.
//
// A sum's threads share out what is kept, never what is summed, but for fixed pieces of few long
// sums, which are added in order: bits do not depend on threads.

#include <algorithm>
#include <cstring>

#include "backend/cpu/families.h"
#include "backend/cpu/pointwise/stretch.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/pointwise/stretched_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

// Aligned from the last dimension on.
Stretch stretch_of(const graph::ValueType& wide, const graph::ValueType& small,
                   const NodeFacts& facts) {
  const std::vector<int64_t> outer = wide.shape.at(facts.samples());
  std::vector<int64_t> inner = small.shape.at(facts.samples());
  inner.insert(inner.begin(), outer.size() - inner.size(), 1);
  return {outer, inner};
}

// `count` times the element at x.
void fill_run(const std::byte* x, std::byte* y, int64_t count, int64_t element) {
  const auto fill = [&](auto number) {
    std::memcpy(&number, x, sizeof(number));
    auto* to = reinterpret_cast<decltype(number)*>(y);
    std::fill_n(to, count, number);
  };
  if (element == 1) return fill(uint8_t{});
  if (element == 2) return fill(uint16_t{});
  if (element == 4) return fill(uint32_t{});
  fill(uint64_t{});
}

CpuKernel make_broadcast(const NodeFacts& facts, const CpuOptions& options) {
  if (facts.outputs[0].shape.rank() > Stretch::kMostRank) return {};
  constexpr int64_t kGrain = 64;
  const Stretch s = stretch_of(facts.outputs[0], facts.inputs[0], facts);
  const int64_t element = element_bytes(facts.outputs[0].dtype).count();
  const int parts = parts_for(s.wide_count() * element, options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(s.wide_count(), kGrain, parts, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t row = begin / s.run();
        const int64_t from = begin % s.run();
        const int64_t count = std::min(s.run() - from, end - begin);
        const std::byte* x = call.inputs[0].data + s.small_row(row) * element;
        std::byte* y = call.outputs[0].data + begin * element;
        if (s.run_kept()) {
          std::memcpy(y, x + from * element, static_cast<size_t>(count * element));
        } else {
          fill_run(x, y, count, element);
        }
        begin += count;
      }
    });
  });
}

// What sum_to adds up, by units: one index of what is kept but for the last dimension.
struct Sums {
  explicit Sums(const Stretch& stretch) : s(stretch) {
    const int outer = s.rank() - 1;
    for (int d = 0; d < outer; ++d) (s.kept(d) ? units : rows) *= s.extent(d);
    lines = s.run_kept() ? ceil_div(s.run(), kLine) : 1;
    if (s.run_kept() || units >= kFewUnits) return;
    pieces = std::clamp<int64_t>(s.run() / kPiece, 1, kMostPieces);
  }

  static constexpr int64_t kLine = 16;        // columns that threads share out together
  static constexpr int64_t kFewUnits = 32;    // fewer than these are summed in pieces
  static constexpr int64_t kPiece = 1 << 14;  // numbers
  static constexpr int64_t kMostPieces = 32;

  // First element of the wide array at index `kept` of what is kept and `summed` of what is not.
  int64_t wide_at(int64_t kept, int64_t summed) const {
    int64_t offset = 0;
    for (int d = s.rank() - 2; d >= 0; --d) {
      int64_t& index = s.kept(d) ? kept : summed;
      offset += index % s.extent(d) * s.wide_stride(d);
      index /= s.extent(d);
    }
    return offset;
  }
  // Rows that follow each other with one stride, of the innermost summed dimension.
  int64_t side_by_side() const { return s.rank() > 1 && s.run_kept() ? s.extent(s.rank() - 2) : 1; }

  Stretch s;
  int64_t units = 1;
  int64_t rows = 1;    // that are summed in each
  int64_t lines = 1;   // of columns
  int64_t pieces = 1;  // of each row, where the run is summed
};

void put_sum(float* to, double sum, bool add) {
  const auto rounded = static_cast<float>(sum);
  *to = add ? *to + rounded : rounded;
}

// Columns [begin, end) of a unit.
template <typename Loop>
void sum_columns(const Sums& sums, Loop loop, const float* x, int64_t unit, int64_t begin,
                 int64_t end, float* y, bool add) {
  constexpr int64_t kMost = 256;
  double totals[kMost];
  for (; begin < end; begin += kMost) {
    const int64_t width = std::min(kMost, end - begin);
    std::fill_n(totals, width, 0.0);
    const int64_t block = sums.side_by_side();
    for (int64_t row = 0; row < sums.rows; row += block) {
      loop(x + sums.wide_at(unit, row) + begin, block, sums.s.run(), width, totals);
    }
    for (int64_t i = 0; i < width; ++i) {
      put_sum(y + unit * sums.s.run() + begin + i, totals[i], add);
    }
  }
}

CpuKernel make_column_sums(const Sums& sums, bool folds, const CpuOptions& options) {
  const auto loop = PLIMSOLL_PICK(options.isa, add_run_rows);
  const int parts = parts_for(sums.s.wide_count() * 4, options.parts);
  return kernel_of([=](const KernelCall& call) {
    const bool add = folds && !call.first;
    const int64_t run = sums.s.run();
    for_each_range(sums.units * sums.lines, 1, parts, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t unit = begin / sums.lines;
        const int64_t line = begin % sums.lines;
        const int64_t count = std::min(sums.lines - line, end - begin);
        sum_columns(sums, loop, input_floats(call, 0), unit, line * Sums::kLine,
                    std::min(run, (line + count) * Sums::kLine), output_floats(call, 0), add);
        begin += count;
      }
    });
  });
}

CpuKernel make_run_sums(const Sums& sums, bool folds, const CpuOptions& options) {
  const auto loop = PLIMSOLL_PICK(options.isa, add_run);
  const int parts = parts_for(sums.s.wide_count() * 4, options.parts);
  return kernel_of(
      [=](const KernelCall& call) {
        auto* totals = reinterpret_cast<double*>(call.scratch);
        const int64_t run = sums.s.run();
        for_each_range(sums.units * sums.pieces, 1, parts, [&](int64_t begin, int64_t end) {
          for (int64_t at = begin; at < end; ++at) {
            const int64_t first = run * (at % sums.pieces) / sums.pieces;
            const int64_t last = run * (at % sums.pieces + 1) / sums.pieces;
            double total = 0;
            for (int64_t row = 0; row < sums.rows; ++row) {
              const int64_t from = sums.wide_at(at / sums.pieces, row);
              loop(input_floats(call, 0) + from + first, last - first, &total);
            }
            totals[at] = total;
          }
        });
        for (int64_t unit = 0; unit < sums.units; ++unit) {
          double total = 0;
          for (int64_t p = 0; p < sums.pieces; ++p) total += totals[unit * sums.pieces + p];
          put_sum(output_floats(call, 0) + unit, total, folds && !call.first);
        }
      },
      Bytes(sums.units * sums.pieces * static_cast<int64_t>(sizeof(double))));
}

CpuKernel make_sum_to(const NodeFacts& facts, const CpuOptions& options) {
  if (!facts.all_float32() || facts.inputs[0].shape.rank() > Stretch::kMostRank) return {};
  const bool folds = facts.inputs[0].shape.has_batch() && !facts.outputs[0].shape.has_batch();
  const Sums sums(stretch_of(facts.inputs[0], facts.outputs[0], facts));
  return sums.s.run_kept() ? make_column_sums(sums, folds, options)
                           : make_run_sums(sums, folds, options);
}

constexpr CpuEntry kEntries[] = {{"broadcast", make_broadcast}, {"sum_to", make_sum_to}};

}  // namespace

CpuKernel make_stretched(const NodeFacts& facts, const CpuOptions& options) {
  return make_listed(kEntries, facts, options);
}

}  // namespace plimsoll::backend::cpu
