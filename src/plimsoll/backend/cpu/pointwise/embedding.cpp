// embedding, the gradient of its table, and Adam straight from what was read of it.
//
// Threads share out rows of the table. Each finds the positions that name one of its rows, sorts
// them by row and place, and sums a row's gradients in that order, so that no sum depends on how
// rows are shared out.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/families.h"
#include "backend/kernel/part_rows.h"
#include "base/ceil_div.h"

namespace plimsoll::backend::cpu {
namespace {

struct RowsStep {
  float alpha = 0, take_1 = 0, take_2 = 0, epsilon = 0;
  float decay = 0;  // of the weight, learning rate included
};

}  // namespace
}  // namespace plimsoll::backend::cpu

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/pointwise/embedding_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));

// The numbers in `operand`: row numbers of a table.
struct Ids {
  bool wide = true;   // int64, else int32
  int64_t count = 0;  // in the call

  int64_t at(const Operand& operand, int64_t i) const {
    return wide ? reinterpret_cast<const int64_t*>(operand.data)[i]
                : int64_t{reinterpret_cast<const int32_t*>(operand.data)[i]};
  }
};

bool read_ids(const NodeFacts& facts, size_t input, Ids& ids) {
  const DType dtype = facts.inputs[input].dtype;
  ids.wide = dtype == DType::kInt64;
  ids.count = facts.input_elements(input);
  return ids.wide || dtype == DType::kInt32;
}

// A position that names a row: the row above, the position below.
using Mention = uint64_t;
constexpr int kPositionBits = 32;
int64_t row_of(Mention mention) { return static_cast<int64_t>(mention >> kPositionBits); }
int64_t position_of(Mention mention) {
  return static_cast<int64_t>(mention & std::numeric_limits<uint32_t>::max());
}
bool fits_mentions(int64_t rows, int64_t positions) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  return rows < kMost && positions < kMost;
}

// Collects those of rows [begin, end), counted from row `first` of the whole table.
int64_t collect_mentions(const Ids& ids, const Operand& operand, int64_t first, int64_t begin,
                         int64_t end, Mention* mentions) {
  int64_t count = 0;
  for (int64_t i = 0; i < ids.count; ++i) {
    const int64_t row = ids.at(operand, i) - first;
    if (row < begin || row >= end) continue;
    mentions[count++] = static_cast<uint64_t>(row) << kPositionBits | static_cast<uint64_t>(i);
  }
  std::sort(mentions, mentions + count);
  return count;
}

// One thread's scratch: mentions, and two rows of floats or one of doubles.
int64_t part_scratch(const Ids& ids, int64_t columns) {
  const int64_t bytes = ids.count * int64_t{sizeof(Mention)} + 2 * columns * kFloat;
  return round_up_to_line(bytes);
}

struct Table {
  Ids ids;
  int64_t rows = 1;
  int64_t columns = 1;
  int parts = 1;

  Bytes scratch() const { return Bytes(parts * part_scratch(ids, columns)); }
  // body(first row, last row, scratch) for each part.
  template <typename Body>
  void share_out(const KernelCall& call, const Body& body) const noexcept {
    for_each_part(parts, [&](int part) {
      const Range range = part_of(rows, 1, part, parts);
      body(range.begin, range.end, call.scratch + part * part_scratch(ids, columns));
    });
  }
};

CpuKernel make_gather(const NodeFacts& facts, const CpuOptions& options) {
  Ids ids;
  if (!read_ids(facts, 0, ids) || facts.outputs[0].dtype != DType::kFloat32) return {};
  const int64_t rows = facts.inputs[1].shape[0].count;
  const int64_t columns = facts.inputs[1].shape[1].count;
  const int parts = parts_for(ids.count * columns * 2 * kFloat, options.parts);
  return kernel_of([=](const KernelCall& call) {
    const float* table = input_floats(call, 1);
    const auto bytes = static_cast<size_t>(columns * kFloat);
    for_each_range(ids.count, 1, parts, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = ids.at(call.inputs[0], i);
        float* to = output_floats(call, 0) + i * columns;
        if (row < 0 || row >= rows) {
          std::memset(to, 0, bytes);
        } else {
          std::memcpy(to, table + row * columns, bytes);
        }
      }
    });
  });
}

CpuKernel make_gradient(const NodeFacts& facts, const CpuOptions& options) {
  Table t;
  if (!read_ids(facts, 0, t.ids) || facts.outputs[0].dtype != DType::kFloat32) return {};
  t.rows = facts.outputs[0].shape[0].count;
  t.columns = facts.outputs[0].shape[1].count;
  if (!fits_mentions(t.rows, t.ids.count)) return {};
  t.parts = parts_for(t.rows * t.columns * kFloat, options.parts);
  const std::string what = facts.attributes.get_string("sum_of", "gradients");
  const auto add = what == "squares"      ? PLIMSOLL_PICK(options.isa, add_squares_to_doubles)
                   : what == "magnitudes" ? PLIMSOLL_PICK(options.isa, add_magnitudes_to_doubles)
                                          : PLIMSOLL_PICK(options.isa, add_to_doubles);
  return kernel_of(
      [t, add](const KernelCall& call) {
        t.share_out(call, [&](int64_t begin, int64_t end, std::byte* scratch) {
          float* table = output_floats(call, 0);
          if (call.first) std::fill(table + begin * t.columns, table + end * t.columns, 0.0f);
          auto* sums = reinterpret_cast<double*>(scratch);
          auto* mentions = reinterpret_cast<Mention*>(sums + t.columns);
          const int64_t count = collect_mentions(t.ids, call.inputs[0], 0, begin, end, mentions);
          for (int64_t i = 0; i < count;) {
            const int64_t row = row_of(mentions[i]);
            std::fill_n(sums, t.columns, 0.0);
            for (; i < count && row_of(mentions[i]) == row; ++i) {
              add(input_floats(call, 1) + position_of(mentions[i]) * t.columns, sums, t.columns);
            }
            float* out = table + row * t.columns;
            for (int64_t c = 0; c < t.columns; ++c) out[c] += static_cast<float>(sums[c]);
          }
        });
      },
      t.scratch());
}

// Rows [begin, end) of those in the call: stretches that nobody read, and rows that somebody did.
struct AdamRows {
  Table t;
  int64_t part_rows;
  decltype(&generic::adam_idle) idle;
  decltype(&generic::adam_active) active;
  decltype(&generic::add_gradient) add;

  void run(const KernelCall& call, const RowsStep& step, int64_t begin, int64_t end,
           std::byte* scratch) const noexcept {
    auto* mentions = reinterpret_cast<Mention*>(scratch);
    auto* sums = reinterpret_cast<float*>(mentions + t.ids.count);
    float* squares = sums + t.columns;
    const int64_t count = collect_mentions(t.ids, call.inputs[1], first_table_row(call, part_rows),
                                           begin, end, mentions);
    int64_t row = begin;
    const auto idle_up_to = [&](int64_t last) {
      const int64_t at = row * t.columns;
      idle(step, input_floats(call, 0) + at, input_floats(call, 3) + at, input_floats(call, 4) + at,
           output_floats(call, 0) + at, output_floats(call, 1) + at, output_floats(call, 2) + at,
           (last - row) * t.columns);
    };
    for (int64_t i = 0; i < count;) {
      const int64_t read = row_of(mentions[i]);
      idle_up_to(read);
      std::fill_n(sums, 2 * t.columns, 0.0f);
      for (; i < count && row_of(mentions[i]) == read; ++i) {
        add(input_floats(call, 2) + position_of(mentions[i]) * t.columns, sums, squares, t.columns);
      }
      const int64_t at = read * t.columns;
      active(step, sums, squares, input_floats(call, 0) + at, input_floats(call, 3) + at,
             input_floats(call, 4) + at, output_floats(call, 0) + at, output_floats(call, 1) + at,
             output_floats(call, 2) + at, t.columns);
      row = read + 1;
    }
    idle_up_to(end);
  }
};

CpuKernel make_adam(const NodeFacts& facts, const CpuOptions& options) {
  AdamRows rows{{},
                facts.attributes.get_int("part_rows", 0),
                PLIMSOLL_PICK(options.isa, adam_idle),
                PLIMSOLL_PICK(options.isa, adam_active),
                PLIMSOLL_PICK(options.isa, add_gradient)};
  if (facts.inputs[0].dtype != DType::kFloat32 || !read_ids(facts, 1, rows.t.ids)) return {};
  rows.t.columns = facts.inputs[0].shape[1].count;
  rows.t.rows = facts.input_elements(0) / rows.t.columns;
  if (!fits_mentions(facts.inputs[0].shape[0].count, rows.t.ids.count)) return {};
  rows.t.parts = parts_for(rows.t.rows * rows.t.columns * 6 * kFloat, options.parts);
  const auto beta_1 = facts.attributes.get_double("beta_1");
  const auto beta_2 = facts.attributes.get_double("beta_2");
  const auto epsilon = static_cast<float>(facts.attributes.get_double("epsilon"));
  const auto decay = static_cast<float>(facts.attributes.get_double("weight_decay", 0.0));
  return kernel_of(
      [=](const KernelCall& call) {
        const float lr = *input_floats(call, 5);
        const auto t =
            static_cast<float>(*reinterpret_cast<const int64_t*>(call.inputs[6].data) + 1);
        const RowsStep step{lr * std::sqrt(1.0f - std::pow(static_cast<float>(beta_2), t)) /
                                (1.0f - std::pow(static_cast<float>(beta_1), t)),
                            static_cast<float>(1.0 - beta_1), static_cast<float>(1.0 - beta_2),
                            epsilon, decay * lr};
        rows.t.share_out(call, [&](int64_t begin, int64_t end, std::byte* scratch) {
          rows.run(call, step, begin, end, scratch);
        });
      },
      rows.t.scratch());
}

constexpr CpuEntry kEntries[] = {
    {"embedding", make_gather},
    {"embedding_grad", make_gradient},
    {"adam_rows", make_adam},
};

}  // namespace

CpuKernel make_embedding(const NodeFacts& facts, const CpuOptions& options) {
  return make_listed(kEntries, facts, options);
}

}  // namespace plimsoll::backend::cpu
