// Comparisons, bool algebra, pairs of integers, broadcasting and its sums, quotients, literals.

#include <algorithm>
#include <cstring>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "ops/integer_pair.h"
#include "ops/literal.h"

namespace plimsoll::backend::reference {
namespace {

template <typename Make>
std::unique_ptr<Kernel> for_number(DType dtype, Make make) {
  switch (dtype) {
    case DType::kInt32:
      return make(int32_t());
    case DType::kInt64:
      return make(int64_t());
    case DType::kInt8:
      return make(int8_t());
    case DType::kUInt8:
    case DType::kBool:
      return make(uint8_t());
    default:
      return for_float(dtype, make);
  }
}

// f(x, y) by the name of the relation.
template <typename T, typename Body>
std::unique_ptr<Kernel> for_relation(const std::string& kind, Body body) {
  if (kind == "equal") return body([](T x, T y) { return x == y; });
  if (kind == "not_equal") return body([](T x, T y) { return x != y; });
  if (kind == "less") return body([](T x, T y) { return x < y; });
  if (kind == "less_equal") return body([](T x, T y) { return x <= y; });
  if (kind == "greater") return body([](T x, T y) { return x > y; });
  return body([](T x, T y) { return x >= y; });
}

std::unique_ptr<Kernel> make_compare(const Problem& problem) {
  const bool number = problem.inputs.size() == 1;
  const double value = number ? problem.attributes.get_double("value") : 0;
  return for_number(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return for_relation<T>(problem.attributes.get_string("kind"), [&](auto relation) {
      return kernel_of([number, value, relation](const KernelCall& call) {
        const Operand& x = call.inputs[0];
        const Operand& other = call.inputs.back();
        const Operand& y = call.outputs[0];
        for_each_run<3>(x.dims, {x.strides, other.strides, y.strides},
                        [&](const auto& at, int64_t, int64_t count) {
                          const T* a = data_of<const T>(x) + at[0];
                          const T* b = data_of<const T>(other) + at[1];
                          auto* out = data_of<uint8_t>(y) + at[2];
                          for (int64_t i = 0; i < count; ++i) {
                            out[i] = relation(a[i], number ? static_cast<T>(value) : b[i]);
                          }
                        });
      });
    });
  });
}

std::unique_ptr<Kernel> make_logical(const Problem& problem) {
  const std::string kind = problem.attributes.get_string("kind");
  const int mode = kind == "and" ? 0 : kind == "or" ? 1 : kind == "xor" ? 2 : 3;
  return kernel_of([mode](const KernelCall& call) {
    const Operand& x = call.inputs[0];
    const Operand& other = call.inputs.back();
    const Operand& y = call.outputs[0];
    for_each_run<3>(x.dims, {x.strides, other.strides, y.strides},
                    [&](const auto& at, int64_t, int64_t count) {
                      const auto* a = data_of<const uint8_t>(x) + at[0];
                      const auto* b = data_of<const uint8_t>(other) + at[1];
                      auto* out = data_of<uint8_t>(y) + at[2];
                      for (int64_t i = 0; i < count; ++i) {
                        const bool p = a[i] != 0;
                        const bool q = b[i] != 0;
                        out[i] = mode == 0 ? p && q : mode == 1 ? p || q : mode == 2 ? p != q : !p;
                      }
                    });
  });
}

std::unique_ptr<Kernel> make_any_last(const Problem&) {
  return kernel_of([](const KernelCall& call) {
    const Operand& x = call.inputs[0];
    const Operand& y = call.outputs[0];
    for_each_index<2>(row_dims(x), {x.strides.first(x.strides.size() - 1), y.strides},
                      [&](const auto& at, int64_t) {
                        const auto* row = data_of<const uint8_t>(x) + at[0];
                        data_of<uint8_t>(y)[at[1]] =
                            std::any_of(row, row + row_length(x), [](uint8_t v) { return v != 0; });
                      });
  });
}

// Strides of a narrow operand as the wide one's dimensions see it: 0 where it repeats.
std::array<int64_t, kMaxRank> stretched(const Operand& narrow, const Operand& wide) {
  std::array<int64_t, kMaxRank> strides{};
  const size_t missing = wide.dims.size() - narrow.dims.size();
  for (size_t d = 0; d < narrow.dims.size(); ++d) {
    strides[missing + d] = narrow.dims[d] == wide.dims[missing + d] ? narrow.strides[d] : 0;
  }
  return strides;
}

std::unique_ptr<Kernel> make_broadcast(const Problem& problem) {
  const int64_t element = element_bytes(problem.inputs[0].dtype).count();
  return kernel_of([element](const KernelCall& call) {
    const Operand& x = call.inputs[0];
    const Operand& y = call.outputs[0];
    const auto strides = stretched(x, y);
    for_each_index<2>(y.dims, {Strides(strides).first(y.dims.size()), y.strides},
                      [&](const auto& at, int64_t) {
                        std::memcpy(y.data + at[1] * element, x.data + at[0] * element,
                                    static_cast<size_t>(element));
                      });
  });
}

// Sums of a block in double, in scratch, then folded.
std::unique_ptr<Kernel> make_sum_to(const Problem& problem) {
  const bool folds = problem.inputs[0].shape.has_batch() && !problem.outputs[0].shape.has_batch();
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([folds](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      auto* sums = reinterpret_cast<double*>(call.scratch);
      std::fill_n(sums, count_of(y), 0.0);
      std::array<int64_t, kMaxRank> dense{};
      int64_t step = 1;
      for (size_t d = y.dims.size(); d-- > 0; step *= y.dims[d]) dense[d] = step;
      const auto strides = stretched({nullptr, y.dims, Strides(dense).first(y.dims.size())}, x);
      for_each_index<2>(x.dims, {x.strides, Strides(strides).first(x.dims.size())},
                        [&](const auto& at, int64_t) {
                          sums[at[1]] += static_cast<double>(data_of<const T>(x)[at[0]]);
                        });
      for_each_index<1>(y.dims, {y.strides}, [&](const auto& at, int64_t position) {
        fold(data_of<T>(y)[at[0]], sums[position], call.first || !folds);
      });
    });
  });
}

Bytes sum_to_scratch(const Problem& problem) {
  const Shape& y = problem.outputs[0].shape;
  const int64_t batch = problem.extent(graph::kBatchAxis, problem.batch);
  return Bytes(y.elements_per_sample() * (y.has_batch() ? batch : 1) * int64_t{sizeof(double)});
}

template <bool kNoNan>
std::unique_ptr<Kernel> make_divide(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      for_each_pair<T>(call.inputs[0], call.inputs[1], call.outputs[0], [](T left, T right) {
        return kNoNan && right == T(0) ? T(0) : left / right;
      });
    });
  });
}

std::unique_ptr<Kernel> make_literal(const Problem& problem) {
  const DType dtype = problem.outputs[0].dtype;
  std::vector<double> values = ops::read_literal(dtype, problem.attributes.get_string("data"));
  return for_number(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> numbers;
    numbers.reserve(values.size());
    for (double value : values) numbers.push_back(static_cast<T>(value));
    return kernel_of([numbers = std::move(numbers)](const KernelCall& call) {
      std::copy(numbers.begin(), numbers.end(), data_of<T>(call.outputs[0]));
    });
  });
}

std::unique_ptr<Kernel> make_integer_pair(const Problem& problem) {
  const ops::IntegerKind kind = ops::read_integer_kind(problem.attributes);
  return for_number(problem.inputs[0].dtype, [kind](auto zero) -> std::unique_ptr<Kernel> {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      return kernel_of([kind](const KernelCall& call) {
        for_each_pair<T>(call.inputs[0], call.inputs[1], call.outputs[0],
                         [kind](T left, T right) { return ops::integer_value(kind, left, right); });
      });
    } else {
      throw Error(ErrorKind::kBackend,
                  "reference: expected integers, received others. Put a cast "
                  "before them.");
    }
  });
}

constexpr KernelEntry kEntries[] = {
    {"any_last", make_any_last},
    {"broadcast", make_broadcast},
    {"compare", make_compare},
    {"divide", make_divide<false>},
    {"divide_no_nan", make_divide<true>},
    {"integer_pair", make_integer_pair},
    {"literal", make_literal},
    {"logical", make_logical},
    {"sum_to", make_sum_to, sum_to_scratch, false},
};

}  // namespace

std::span<const KernelEntry> logic_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
