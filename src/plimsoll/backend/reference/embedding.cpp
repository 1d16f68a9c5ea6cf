// embedding, the gradient of its table, and Adam straight from what was read of it.

#include <algorithm>
#include <cstring>

#include "backend/kernel/part_rows.h"
#include "backend/reference/labels.h"
#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

std::unique_ptr<Kernel> make_embedding(const Problem& problem) {
  const DType ids = problem.inputs[0].dtype;
  const int64_t element = element_bytes(problem.outputs[0].dtype).count();
  return kernel_of([ids, element](const KernelCall& call) {
    const Operand& table = call.inputs[1];
    const Operand& y = call.outputs[0];
    const auto bytes = static_cast<size_t>(table.dims[1] * element);
    for_each_index<2>(call.inputs[0].dims,
                      {call.inputs[0].strides, y.strides.first(y.strides.size() - 1)},
                      [&](const auto& at, int64_t) {
                        const int64_t row = read_label(call.inputs[0], ids, at[0]);
                        std::byte* out = y.data + at[1] * element;
                        if (row < 0 || row >= table.dims[0]) {
                          std::memset(out, 0, bytes);
                        } else {
                          std::memcpy(out, table.data + row * table.strides[0] * element, bytes);
                        }
                      });
  });
}

// A position that names a row of the table; by row, then by position.
struct Mention {
  int64_t row;
  int64_t offset;  // of its gradient, in elements
  friend bool operator<(const Mention& a, const Mention& b) {
    return a.row != b.row ? a.row < b.row : a.offset < b.offset;
  }
};

// After the mentions in scratch: one row of sums.
Bytes gradient_scratch(const Problem& problem) {
  const Shape& ids = problem.inputs[0].shape;
  const int64_t batch = problem.extent(graph::kBatchAxis, problem.batch);
  const int64_t mentions =
      ids.has_batch() ? ids.elements_per_sample() * batch : ids.elements_per_sample();
  return Bytes(mentions * int64_t{sizeof(Mention)} +
               problem.outputs[0].shape[1].count * int64_t{sizeof(double)});
}

// Those of `rows` rows from `first` on, counted from there; by row, then by position.
int64_t collect(const Operand& numbers, const Operand& dy, DType ids, int64_t first, int64_t rows,
                Mention* mentions) {
  int64_t count = 0;
  for_each_index<2>(numbers.dims, {numbers.strides, dy.strides.first(dy.strides.size() - 1)},
                    [&](const auto& at, int64_t) {
                      const int64_t row = read_label(numbers, ids, at[0]) - first;
                      if (row >= 0 && row < rows) mentions[count++] = {row, at[1]};
                    });
  std::sort(mentions, mentions + count);
  return count;
}

// What embedding_grad sums of each gradient.
enum class SumOf : uint8_t { kGradients, kSquares, kMagnitudes };

SumOf read_sum_of(const graph::Attributes& attributes) {
  const std::string what = attributes.get_string("sum_of", "gradients");
  if (what == "squares") return SumOf::kSquares;
  return what == "magnitudes" ? SumOf::kMagnitudes : SumOf::kGradients;
}

template <typename T>
double term_of(SumOf what, T gradient) {
  if (what == SumOf::kSquares) return static_cast<double>(gradient * gradient);
  return static_cast<double>(what == SumOf::kMagnitudes ? std::abs(gradient) : gradient);
}

template <typename T>
void scatter(const KernelCall& call, SumOf what, const Mention* mentions, int64_t count,
             double* sums) {
  const Operand& dy = call.inputs[1];
  const Operand& table = call.outputs[0];
  const int64_t columns = table.dims[1];
  for (int64_t i = 0; i < count;) {
    const int64_t row = mentions[i].row;
    std::fill_n(sums, columns, 0.0);
    for (; i < count && mentions[i].row == row; ++i) {
      const T* gradient = data_of<const T>(dy) + mentions[i].offset;
      for (int64_t c = 0; c < columns; ++c) sums[c] += term_of(what, gradient[c]);
    }
    T* out = data_of<T>(table) + row * table.strides[0];
    for (int64_t c = 0; c < columns; ++c) out[c] += static_cast<T>(sums[c]);
  }
}

std::unique_ptr<Kernel> make_embedding_grad(const Problem& problem) {
  const DType ids = problem.inputs[0].dtype;
  const SumOf what = read_sum_of(problem.attributes);
  return for_float(problem.inputs[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t mention_bytes = gradient_scratch(problem).count() -
                                  problem.outputs[0].shape[1].count * int64_t{sizeof(double)};
    return kernel_of([ids, what, mention_bytes](const KernelCall& call) {
      const Operand& table = call.outputs[0];
      if (call.first) {
        for (int64_t r = 0; r < table.dims[0]; ++r) {
          std::fill_n(data_of<T>(table) + r * table.strides[0], table.dims[1], T(0));
        }
      }
      auto* mentions = reinterpret_cast<Mention*>(call.scratch);
      const int64_t count =
          collect(call.inputs[0], call.inputs[1], ids, 0, table.dims[0], mentions);
      scatter<T>(call, what, mentions, count,
                 reinterpret_cast<double*>(call.scratch + mention_bytes));
    });
  });
}

// One row of the table and its moments, with the sums of its gradients and of their squares;
// nullptr: nobody read it.
template <typename T>
struct RowUpdate {
  T alpha, take_1, take_2, epsilon, decay;  // decay: the weight keeps 1 − decay

  void run(const KernelCall& call, size_t slots, int64_t row, int64_t columns, const T* sum,
           const T* squares) const {
    const auto at = [&](const Operand& operand) {
      return data_of<T>(operand) + row * operand.strides[0];
    };
    const T* w = at(call.inputs[0]);
    const T* m = at(call.inputs[3]);
    const T* v = at(call.inputs[4]);
    T* new_w = at(call.outputs[0]);
    T* new_m = at(call.outputs[1]);
    T* new_v = at(call.outputs[2]);
    for (int64_t c = 0; c < columns; ++c) {
      const T g = sum == nullptr ? T(0) : sum[c];
      const T square = squares == nullptr ? T(0) : squares[c];
      const T first = m[c] + (g - m[c]) * take_1;
      T second = v[c] + (square - v[c]) * take_2;
      const T old = decay == T(0) ? w[c] : w[c] - w[c] * decay;
      new_m[c] = first;
      new_v[c] = second;
      if (slots == 3) {
        const T largest = at(call.inputs[5])[c];
        if (largest > second) second = largest;
        at(call.outputs[3])[c] = second;
      }
      new_w[c] = old - first * alpha / (std::sqrt(second) + epsilon);
    }
  }
};

// After the mentions in scratch: a row of sums and one of sums of squares.
int64_t mention_bytes_of(const Problem& problem) {
  const Shape& ids = problem.inputs[1].shape;
  return ids.elements_per_sample() * (ids.has_batch() ? problem.batch : 1) *
         int64_t{sizeof(Mention)};
}

Bytes adam_scratch(const Problem& problem) {
  const int64_t element = element_bytes(problem.outputs[0].dtype).count();
  return Bytes(mention_bytes_of(problem) + 2 * problem.outputs[0].shape[1].count * element);
}

// The sums of one row's mentions, in order; how many there are.
template <typename T>
int64_t sum_mentions(const Operand& dy, const Mention* mentions, int64_t left, int64_t columns,
                     T* sums, T* squares) {
  std::fill_n(sums, columns, T(0));
  std::fill_n(squares, columns, T(0));
  int64_t i = 0;
  for (; i < left && mentions[i].row == mentions[0].row; ++i) {
    const T* gradient = data_of<const T>(dy) + mentions[i].offset;
    for (int64_t c = 0; c < columns; ++c) {
      sums[c] += gradient[c];
      squares[c] += gradient[c] * gradient[c];
    }
  }
  return i;
}

template <size_t kSlots>
std::unique_ptr<Kernel> make_adam_rows(const Problem& problem) {
  const DType ids = problem.inputs[1].dtype;
  const graph::Attributes& attributes = problem.attributes;
  const double beta_1 = attributes.get_double("beta_1");
  const double beta_2 = attributes.get_double("beta_2");
  const double epsilon = attributes.get_double("epsilon");
  const double decay = attributes.get_double("weight_decay", 0.0);
  const int64_t part_rows = attributes.get_int("part_rows", 0);
  const int64_t mention_bytes = mention_bytes_of(problem);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& table = call.inputs[0];
      const int64_t columns = table.dims[1];
      const T lr = *data_of<const T>(call.inputs[3 + kSlots]);
      const T t = static_cast<T>(*data_of<const int64_t>(call.inputs[4 + kSlots]) + 1);
      const RowUpdate<T> update{lr * std::sqrt(T(1) - std::pow(static_cast<T>(beta_2), t)) /
                                    (T(1) - std::pow(static_cast<T>(beta_1), t)),
                                static_cast<T>(1.0 - beta_1), static_cast<T>(1.0 - beta_2),
                                static_cast<T>(epsilon), static_cast<T>(decay) * lr};
      auto* mentions = reinterpret_cast<Mention*>(call.scratch);
      T* sums = reinterpret_cast<T*>(call.scratch + mention_bytes);
      const int64_t count = collect(call.inputs[1], call.inputs[2], ids,
                                    first_table_row(call, part_rows), table.dims[0], mentions);
      int64_t next = 0;
      for (int64_t row = 0; row < table.dims[0]; ++row) {
        const bool read = next < count && mentions[next].row == row;
        if (read) {
          next += sum_mentions(call.inputs[2], mentions + next, count - next, columns, sums,
                               sums + columns);
        }
        update.run(call, kSlots, row, columns, read ? sums : nullptr,
                   read ? sums + columns : nullptr);
      }
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"adam_rows", make_adam_rows<2>, adam_scratch},
    {"adam_rows_amsgrad", make_adam_rows<3>, adam_scratch},
    {"embedding", make_embedding},
    {"embedding_grad", make_embedding_grad, gradient_scratch},
};

}  // namespace

std::span<const KernelEntry> embedding_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
