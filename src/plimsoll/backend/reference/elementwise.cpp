// Kernels that go element by element: sums and products, bias, scaling, dropout, casts, counters.

#include <algorithm>
#include <array>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "ops/dropout_mask.h"

namespace plimsoll::backend::reference {
namespace {

// y = f(a, b), b of a's dims or a scalar.
template <typename T, typename F>
std::unique_ptr<Kernel> binary(const Problem& problem, F f) {
  const bool scalar = problem.inputs[1].shape.rank() == 0 && problem.inputs[0].shape.rank() > 0;
  return kernel_of([scalar, f](const KernelCall& call) {
    const Operand& a = call.inputs[0];
    const Operand& b = call.inputs[1];
    const Operand& y = call.outputs[0];
    if (scalar) {
      const T right = *data_of<T>(b);
      for_each_run<2>(a.dims, {a.strides, y.strides}, [&](const auto& at, int64_t, int64_t count) {
        const T* left = data_of<T>(a) + at[0];
        T* out = data_of<T>(y) + at[1];
        for (int64_t i = 0; i < count; ++i) out[i] = f(left[i], right);
      });
      return;
    }
    for_each_pair<T>(a, b, y, f);
  });
}

std::unique_ptr<Kernel> make_add(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return binary<T>(problem, [](T a, T b) { return a + b; });
  });
}

std::unique_ptr<Kernel> make_subtract(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return binary<T>(problem, [](T a, T b) { return a - b; });
  });
}

std::unique_ptr<Kernel> make_multiply(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return binary<T>(problem, [](T a, T b) { return a * b; });
  });
}

// Which of two is the larger one (`sign` 1) or the smaller one (−1); a NaN wins.
template <typename T>
T extremum(T a, T b, T sign) {
  return a * sign > b * sign || a != a ? a : b;
}

template <int kSign>
std::unique_ptr<Kernel> make_extremum(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return binary<T>(problem, [](T a, T b) { return extremum(a, b, T(kSign)); });
  });
}

std::unique_ptr<Kernel> make_extremum_grad(const Problem& problem) {
  const bool largest = problem.attributes.get_string("of", "maximum") == "maximum";
  const bool ties = problem.attributes.get_bool("ties");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([sign = T(largest ? 1 : -1), ties](const KernelCall& call) {
      const Operand& dy = call.inputs[0];
      const Operand& dx = call.outputs[0];
      for_each_run<4>(dy.dims,
                      {dy.strides, call.inputs[1].strides, call.inputs[2].strides, dx.strides},
                      [&](const auto& at, int64_t, int64_t count) {
                        const T* d = data_of<T>(dy) + at[0];
                        const T* mine = data_of<T>(call.inputs[1]) + at[1];
                        const T* other = data_of<T>(call.inputs[2]) + at[2];
                        T* out = data_of<T>(dx) + at[3];
                        for (int64_t i = 0; i < count; ++i) {
                          const bool won = ties ? mine[i] * sign >= other[i] * sign
                                                : !(other[i] * sign >= mine[i] * sign);
                          out[i] = won ? d[i] : T(0);
                        }
                      });
    });
  });
}

std::unique_ptr<Kernel> make_bias_add(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      const T* bias = data_of<T>(call.inputs[1]);
      for_each_index<2>(row_dims(x), {x.strides, y.strides}, [&](const auto& at, int64_t) {
        const T* in = data_of<T>(x) + at[0];
        T* out = data_of<T>(y) + at[1];
        for (int64_t c = 0; c < row_length(x); ++c) out[c] = in[c] + bias[c];
      });
    });
  });
}

std::unique_ptr<Kernel> make_scale_shift(const Problem& problem) {
  const double scale = problem.attributes.get_double("scale");
  const double offset = problem.attributes.get_double("offset");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([a = static_cast<T>(scale),
                      b = static_cast<T>(offset)](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      for_each_run<2>(x.dims, {x.strides, y.strides}, [&](const auto& at, int64_t, int64_t count) {
        const T* in = data_of<T>(x) + at[0];
        T* out = data_of<T>(y) + at[1];
        for (int64_t i = 0; i < count; ++i) out[i] = in[i] * a + b;
      });
    });
  });
}

std::unique_ptr<Kernel> make_dropout(const Problem& problem) {
  const double rate = problem.attributes.get_double("rate");
  const int64_t site = problem.attributes.get_int("site");
  const int batch_axis = problem.axis(graph::kBatchAxis);
  const int64_t per_sample = problem.inputs[0].shape.elements_per_sample();
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      const T scale = static_cast<T>(1.0 / (1.0 - rate));
      const Philox stream = ops::dropout_stream(call.step->seed, call.step->step, site);
      const int64_t first = call.first_sample(batch_axis) * per_sample;
      for_each_run<2>(
          x.dims, {x.strides, y.strides}, [&](const auto& at, int64_t position, int64_t count) {
            const T* in = data_of<T>(x) + at[0];
            T* out = data_of<T>(y) + at[1];
            std::array<bool, 256> keep;
            for (int64_t done = 0; done < count; done += int64_t{keep.size()}) {
              const auto part = std::min<size_t>(keep.size(), static_cast<size_t>(count - done));
              ops::fill_dropout_mask(stream, static_cast<uint64_t>(first + position + done),
                                     static_cast<float>(rate), std::span(keep).first(part));
              for (size_t i = 0; i < part; ++i) {
                const auto e = done + static_cast<int64_t>(i);
                out[e] = keep[i] ? in[e] * scale : T(0);
              }
            }
          });
    });
  });
}

// Calls visit(T()) for the C++ type of a dtype that casts know.
template <typename Visit>
auto visit_number(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kFloat32:
      return visit(float());
    case DType::kFloat64:
      return visit(double());
    case DType::kInt32:
      return visit(int32_t());
    case DType::kInt64:
      return visit(int64_t());
    case DType::kInt8:
      return visit(int8_t());
    case DType::kUInt8:
      return visit(uint8_t());
    case DType::kBool:
      return visit(bool());
    default:
      throw Error(ErrorKind::kBackend, "reference: expected a number that casts know, received " +
                                           std::string(to_string(dtype)) +
                                           ". Choose another dtype.");
  }
}

template <typename To, typename From>
To cast_number(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Out of range, and NaN, have no value in C++: take the nearest one, and 0.
    if (x != x) return To(0);
    const auto low = static_cast<double>(std::numeric_limits<To>::min());
    const auto high = static_cast<double>(std::numeric_limits<To>::max());
    if (static_cast<double>(x) <= low) return std::numeric_limits<To>::min();
    if (static_cast<double>(x) >= high) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

std::unique_ptr<Kernel> make_cast(const Problem& problem) {
  return visit_number(problem.inputs[0].dtype, [&](auto from) {
    return visit_number(problem.outputs[0].dtype, [&](auto to) -> std::unique_ptr<Kernel> {
      using From = decltype(from);
      using To = decltype(to);
      return kernel_of([](const KernelCall& call) {
        const Operand& x = call.inputs[0];
        const Operand& y = call.outputs[0];
        for_each_run<2>(x.dims, {x.strides, y.strides},
                        [&](const auto& at, int64_t, int64_t count) {
                          const From* in = data_of<From>(x) + at[0];
                          To* out = data_of<To>(y) + at[1];
                          for (int64_t i = 0; i < count; ++i) out[i] = cast_number<To>(in[i]);
                        });
      });
    });
  });
}

std::unique_ptr<Kernel> make_increment(const Problem&) {
  return kernel_of([](const KernelCall& call) {
    *data_of<int64_t>(call.outputs[0]) = *data_of<int64_t>(call.inputs[0]) + 1;
  });
}

std::unique_ptr<Kernel> make_divide_by_count(const Problem& problem) {
  const int64_t per_sample = problem.attributes.get_int("elements_per_sample");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([per_sample, batch = problem.batch](const KernelCall& call) {
      const auto divisor = static_cast<T>(call.all_samples(batch) * per_sample);
      *data_of<T>(call.outputs[0]) = *data_of<T>(call.inputs[0]) / divisor;
    });
  });
}

std::unique_ptr<Kernel> make_batch_count(const Problem& problem) {
  const int64_t per_sample = problem.attributes.get_int("elements_per_sample");
  return for_float(problem.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([per_sample, batch = problem.batch](const KernelCall& call) {
      *data_of<T>(call.outputs[0]) = static_cast<T>(call.all_samples(batch) * per_sample);
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"accumulate", make_add},
    {"add", make_add},
    {"batch_count", make_batch_count},
    {"bias_add", make_bias_add},
    {"cast", make_cast},
    {"divide_by_count", make_divide_by_count},
    {"dropout", make_dropout},
    {"dropout_grad", make_dropout},
    {"extremum_grad", make_extremum_grad},
    {"increment", make_increment},
    {"maximum", make_extremum<1>},
    {"minimum", make_extremum<-1>},
    {"multiply", make_multiply},
    {"scale_shift", make_scale_shift},
    {"subtract", make_subtract},
};

}  // namespace

std::span<const KernelEntry> elementwise_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
