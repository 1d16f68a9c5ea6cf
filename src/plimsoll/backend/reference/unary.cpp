// Functions of one number and of two, choosing between two values, running sums, products of rows,
// and which elements of a row are the largest.

#include "ops/unary.h"

#include <algorithm>
#include <utility>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "ops/binary.h"

namespace plimsoll::backend::reference {
namespace {

std::unique_ptr<Kernel> make_unary(const Problem& problem) {
  const ops::UnaryFunction function = ops::read_unary(problem.attributes);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([function](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      for_each_run<2>(x.dims, {x.strides, y.strides}, [&](const auto& at, int64_t, int64_t count) {
        const T* in = data_of<const T>(x) + at[0];
        T* out = data_of<T>(y) + at[1];
        for (int64_t i = 0; i < count; ++i) out[i] = ops::unary_value(function, in[i]);
      });
    });
  });
}

std::unique_ptr<Kernel> make_unary_grad(const Problem& problem) {
  const ops::UnaryFunction function = ops::read_unary(problem.attributes);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([function](const KernelCall& call) {
      for_each_pair<T>(call.inputs[0], call.inputs[1], call.outputs[0],
                       [function](T dy, T x) { return dy * ops::unary_slope(function, x); });
    });
  });
}

std::unique_ptr<Kernel> make_select(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& a = call.inputs[0];
      const Operand& b = call.inputs[1];
      const Operand& mask = call.inputs[2];
      const Operand& y = call.outputs[0];
      const size_t outer = mask.dims.size();
      for_each_index<4>(
          mask.dims,
          {mask.strides, a.strides.first(outer), b.strides.first(outer), y.strides.first(outer)},
          [&](const auto& at, int64_t) {
            const bool left = data_of<const uint8_t>(mask)[at[0]] != 0;
            const T* from = left ? data_of<const T>(a) + at[1] : data_of<const T>(b) + at[2];
            const Strides strides = left ? a.strides : b.strides;
            for_each_run<2>(a.dims.subspan(outer),
                            {strides.subspan(outer), y.strides.subspan(outer)},
                            [&](const auto& inner, int64_t, int64_t count) {
                              const T* in = from + inner[0];
                              T* out = data_of<T>(y) + at[3] + inner[1];
                              for (int64_t i = 0; i < count; ++i) out[i] = in[i];
                            });
          });
    });
  });
}

// A NaN wins.
std::unique_ptr<Kernel> make_extremum_last(const Problem& problem) {
  const bool largest = problem.attributes.get_string("of", "maximum") == "maximum";
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([largest](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      for_each_index<2>(row_dims(x), {x.strides.first(x.strides.size() - 1), y.strides},
                        [&](const auto& at, int64_t) {
                          const T* row = data_of<const T>(x) + at[0];
                          T best = row[0];
                          for (int64_t i = 1; i < row_length(x); ++i) {
                            const bool better = largest ? row[i] > best : row[i] < best;
                            if (better || row[i] != row[i]) best = row[i];
                            if (best != best) break;
                          }
                          data_of<T>(y)[at[1]] = best;
                        });
    });
  });
}

std::unique_ptr<Kernel> make_binary(const Problem& problem) {
  const ops::BinaryKind kind = ops::read_binary(problem.attributes);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([kind](const KernelCall& call) {
      for_each_pair<T>(call.inputs[0], call.inputs[1], call.outputs[0],
                       [kind](T left, T right) { return ops::binary_value(kind, left, right); });
    });
  });
}

std::unique_ptr<Kernel> make_binary_grad(const Problem& problem) {
  const ops::BinaryKind kind = ops::read_binary(problem.attributes);
  const bool of_right = problem.attributes.get_bool("right");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([kind, of_right](const KernelCall& call) {
      const Operand& dy = call.inputs[0];
      const Operand& a = call.inputs[1];
      const Operand& b = call.inputs[2];
      const Operand& dx = call.outputs[0];
      for_each_run<4>(dy.dims, {dy.strides, a.strides, b.strides, dx.strides},
                      [&](const auto& at, int64_t, int64_t count) {
                        const T* d = data_of<const T>(dy) + at[0];
                        const T* left = data_of<const T>(a) + at[1];
                        const T* right = data_of<const T>(b) + at[2];
                        T* out = data_of<T>(dx) + at[3];
                        for (int64_t i = 0; i < count; ++i) {
                          out[i] =
                              d[i] * (of_right ? ops::binary_right_slope(kind, left[i], right[i])
                                               : ops::binary_left_slope(kind, left[i], right[i]));
                        }
                      });
    });
  });
}

// Sums in double, each rounded once.
std::unique_ptr<Kernel> make_running_sum(const Problem& problem) {
  const int64_t given = problem.attributes.get_int("axis", -1);
  const auto axis = static_cast<size_t>(given < 0 ? given + problem.inputs[0].shape.rank() : given);
  const bool reverse = problem.attributes.get_bool("reverse", false);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([axis, reverse](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      std::array<int64_t, kMaxRank> dims{};
      std::copy(x.dims.begin(), x.dims.end(), dims.begin());
      const int64_t count = std::exchange(dims[axis], 1);
      for_each_index<2>(
          std::span<const int64_t>(dims).first(x.dims.size()), {x.strides, y.strides},
          [&](const auto& at, int64_t) {
            double sum = 0;
            for (int64_t i = 0; i < count; ++i) {
              const int64_t step = reverse ? count - 1 - i : i;
              sum += static_cast<double>(data_of<const T>(x)[at[0] + step * x.strides[axis]]);
              data_of<T>(y)[at[1] + step * y.strides[axis]] = static_cast<T>(sum);
            }
          });
    });
  });
}

// body(row of x, offset of its result).
template <typename T, typename Body>
void for_each_row(const Operand& x, Strides others, Body body) {
  for_each_index<2>(row_dims(x), {x.strides.first(x.strides.size() - 1), others},
                    [&](const auto& at, int64_t) { body(data_of<const T>(x) + at[0], at[1]); });
}

std::unique_ptr<Kernel> make_product_last(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      for_each_row<T>(x, y.strides, [&](const T* row, int64_t at) {
        double product = 1;
        for (int64_t i = 0; i < row_length(x); ++i) product *= static_cast<double>(row[i]);
        data_of<T>(y)[at] = static_cast<T>(product);
      });
    });
  });
}

// The product of those before an element, then that of those after it.
std::unique_ptr<Kernel> make_product_last_grad(const Problem& problem) {
  return for_float(problem.inputs[1].dtype, [](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& dy = call.inputs[0];
      const Operand& x = call.inputs[1];
      const Operand& dx = call.outputs[0];
      const size_t outer = x.dims.size() - 1;
      for_each_index<3>(row_dims(x), {dy.strides, x.strides.first(outer), dx.strides.first(outer)},
                        [&](const auto& at, int64_t) {
                          const T* row = data_of<const T>(x) + at[1];
                          T* out = data_of<T>(dx) + at[2];
                          double before = static_cast<double>(data_of<const T>(dy)[at[0]]);
                          for (int64_t i = 0; i < row_length(x); ++i) {
                            out[i] = static_cast<T>(before);
                            before *= static_cast<double>(row[i]);
                          }
                          double after = 1;
                          for (int64_t i = row_length(x); i-- > 0;) {
                            out[i] = static_cast<T>(static_cast<double>(out[i]) * after);
                            after *= static_cast<double>(row[i]);
                          }
                        });
    });
  });
}

std::unique_ptr<Kernel> make_arg_extremum_last(const Problem& problem) {
  const bool largest = problem.attributes.get_string("of", "maximum") == "maximum";
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([largest](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      for_each_row<T>(x, y.strides, [&](const T* row, int64_t at) {
        // As TensorFlow's search does, it begins at the furthest finite number, not at an element.
        T best = largest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
        int64_t place = 0;
        for (int64_t i = 0; i < row_length(x); ++i) {
          if (!(largest ? row[i] > best : row[i] < best)) continue;
          best = row[i];
          place = i;
        }
        data_of<int32_t>(y)[at] = static_cast<int32_t>(place);
      });
    });
  });
}

std::unique_ptr<Kernel> make_argsort_last(const Problem& problem) {
  const bool descending = problem.attributes.get_bool("descending", false);
  const auto kernel = [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([descending](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      for_each_row<T>(x, y.strides.first(y.strides.size() - 1), [&](const T* row, int64_t at) {
        int32_t* numbers = data_of<int32_t>(y) + at;
        for (int64_t i = 0; i < row_length(x); ++i) numbers[i] = static_cast<int32_t>(i);
        // std::stable_sort would allocate: the number decides between equal ones.
        std::sort(numbers, numbers + row_length(x), [&](int32_t a, int32_t b) {
          const bool a_is_none = row[a] != row[a];
          const bool b_is_none = row[b] != row[b];
          if (a_is_none || b_is_none) return a_is_none == b_is_none ? a < b : b_is_none;
          if (row[a] == row[b]) return a < b;
          return descending ? row[a] > row[b] : row[a] < row[b];
        });
      });
    });
  };
  if (problem.inputs[0].dtype == DType::kInt32) return kernel(int32_t{0});
  return for_float(problem.inputs[0].dtype, kernel);
}

std::unique_ptr<Kernel> make_gather_last(const Problem& problem) {
  const auto kernel = [](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& numbers = call.inputs[1];
      const Operand& y = call.outputs[0];
      const size_t outer = x.dims.size() - 1;
      for_each_index<3>(
          row_dims(x),
          {x.strides.first(outer), numbers.strides.first(outer), y.strides.first(outer)},
          [&](const auto& at, int64_t) {
            const T* row = data_of<const T>(x) + at[0];
            const int32_t* from = data_of<const int32_t>(numbers) + at[1];
            T* out = data_of<T>(y) + at[2];
            for (int64_t i = 0; i < row_length(y); ++i) {
              const bool inside = from[i] >= 0 && from[i] < row_length(x);
              out[i] = inside ? row[from[i]] : T(0);
            }
          });
    });
  };
  if (problem.inputs[0].dtype == DType::kInt32) return kernel(int32_t{0});
  return for_float(problem.inputs[0].dtype, kernel);
}

std::unique_ptr<Kernel> make_scatter_last(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& dy = call.inputs[0];
      const Operand& numbers = call.inputs[1];
      const Operand& dx = call.outputs[0];
      const size_t outer = dy.dims.size() - 1;
      for_each_index<3>(
          row_dims(dy),
          {dy.strides.first(outer), numbers.strides.first(outer), dx.strides.first(outer)},
          [&](const auto& at, int64_t) {
            const T* d = data_of<const T>(dy) + at[0];
            const int32_t* to = data_of<const int32_t>(numbers) + at[1];
            T* out = data_of<T>(dx) + at[2];
            std::fill_n(out, row_length(dx), T(0));
            for (int64_t i = 0; i < row_length(dy); ++i) {
              if (to[i] >= 0 && to[i] < row_length(dx)) out[to[i]] += d[i];
            }
          });
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"arg_extremum_last", make_arg_extremum_last},
    {"argsort_last", make_argsort_last},
    {"binary", make_binary},
    {"binary_grad", make_binary_grad},
    {"extremum_last", make_extremum_last},
    {"gather_last", make_gather_last},
    {"product_last", make_product_last},
    {"product_last_grad", make_product_last_grad},
    {"running_sum", make_running_sum},
    {"scatter_last", make_scatter_last},
    {"select", make_select},
    {"unary", make_unary},
    {"unary_grad", make_unary_grad},
};

}  // namespace

std::span<const KernelEntry> unary_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
