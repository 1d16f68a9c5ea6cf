// Functions of one number, choosing between two values, and the largest of a row.

#include "ops/unary.h"

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

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
      const Operand& dy = call.inputs[0];
      const Operand& x = call.inputs[1];
      const Operand& dx = call.outputs[0];
      for_each_run<3>(dy.dims, {dy.strides, x.strides, dx.strides},
                      [&](const auto& at, int64_t, int64_t count) {
                        const T* d = data_of<const T>(dy) + at[0];
                        const T* in = data_of<const T>(x) + at[1];
                        T* out = data_of<T>(dx) + at[2];
                        for (int64_t i = 0; i < count; ++i) {
                          out[i] = d[i] * ops::unary_slope(function, in[i]);
                        }
                      });
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

constexpr KernelEntry kEntries[] = {
    {"extremum_last", make_extremum_last},
    {"select", make_select},
    {"unary", make_unary},
    {"unary_grad", make_unary_grad},
};

}  // namespace

std::span<const KernelEntry> unary_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
