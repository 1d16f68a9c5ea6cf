// layer_norm and rms_norm, their gradients, and the sums for their parameters.
//
// A row is `dims` trailing dimensions, dense in every operand; sums over a row are in double.

#include <algorithm>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

struct RowShape {
  size_t outer = 1;  // leading dimensions
  int64_t columns = 1;
};

RowShape row_shape(const Problem& problem) {
  const Shape& x = problem.inputs[0].shape;
  const auto dims = static_cast<int>(problem.attributes.get_int("dims"));
  RowShape shape{static_cast<size_t>(x.rank() - dims), 1};
  for (int d = x.rank() - dims; d < x.rank(); ++d) shape.columns *= x[d].count;
  return shape;
}

// body(row of a, row of b, row of c, stats) for each row; operands may be the same.
template <typename Body>
void for_each_row(const RowShape& shape, const Operand& a, const Operand& b, const Operand& c,
                  const Operand& stats, Body body) {
  for_each_index<4>(a.dims.first(shape.outer),
                    {a.strides.first(shape.outer), b.strides.first(shape.outer),
                     c.strides.first(shape.outer), stats.strides.first(shape.outer)},
                    [&](const auto& at, int64_t) { body(at[0], at[1], at[2], at[3]); });
}

std::unique_ptr<Kernel> make_layer_norm(const Problem& problem) {
  const RowShape shape = row_shape(problem);
  const bool scale = problem.attributes.get_bool("scale", true);
  const bool center = problem.attributes.get_bool("center", true);
  const double epsilon = problem.attributes.get_double("epsilon");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      const Operand& stats = call.outputs[1];
      const T* gamma = scale ? data_of<const T>(call.inputs[1]) : nullptr;
      const T* beta = center ? data_of<const T>(call.inputs[scale ? 2 : 1]) : nullptr;
      const bool keeps = stats.data != nullptr;
      const bool wanted = y.data != nullptr;
      for_each_row(shape, x, wanted ? y : x, x, keeps ? stats : x,
                   [&](int64_t from, int64_t to, int64_t, int64_t stat) {
                     const T* in = data_of<const T>(x) + from;
                     double sum = 0;
                     for (int64_t i = 0; i < shape.columns; ++i) sum += static_cast<double>(in[i]);
                     const double mean = sum / static_cast<double>(shape.columns);
                     double squares = 0;
                     for (int64_t i = 0; i < shape.columns; ++i) {
                       squares += square(static_cast<double>(in[i]) - mean);
                     }
                     const double variance = squares / static_cast<double>(shape.columns);
                     const T middle = static_cast<T>(mean);
                     const T inverse = static_cast<T>(1.0 / std::sqrt(variance + epsilon));
                     if (keeps) {
                       data_of<T>(stats)[stat] = middle;
                       data_of<T>(stats)[stat + 1] = inverse;
                     }
                     if (!wanted) return;
                     T* out = data_of<T>(y) + to;
                     for (int64_t i = 0; i < shape.columns; ++i) {
                       T value = (in[i] - middle) * inverse;
                       if (gamma != nullptr) value *= gamma[i];
                       if (beta != nullptr) value += beta[i];
                       out[i] = value;
                     }
                   });
    });
  });
}

// dx = (g − mean(g) − x̂ · mean(g · x̂)) / deviation with g = dy · gamma
std::unique_ptr<Kernel> make_layer_norm_grad(const Problem& problem) {
  const RowShape shape = row_shape(problem);
  const bool scale = problem.attributes.get_bool("scale", true);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& stats = call.inputs[2];
      const T* gamma = scale ? data_of<const T>(call.inputs[3]) : nullptr;
      for_each_row(
          shape, call.inputs[0], call.inputs[1], call.outputs[0], stats,
          [&](int64_t gradient, int64_t from, int64_t to, int64_t stat) {
            const T* dy = data_of<const T>(call.inputs[0]) + gradient;
            const T* x = data_of<const T>(call.inputs[1]) + from;
            T* dx = data_of<T>(call.outputs[0]) + to;
            const T mean = data_of<const T>(stats)[stat];
            const T inverse = data_of<const T>(stats)[stat + 1];
            double sum = 0;
            double product = 0;
            for (int64_t i = 0; i < shape.columns; ++i) {
              const T g = gamma == nullptr ? dy[i] : dy[i] * gamma[i];
              sum += static_cast<double>(g);
              product += static_cast<double>(g) * static_cast<double>((x[i] - mean) * inverse);
            }
            const T mean_g = static_cast<T>(sum / static_cast<double>(shape.columns));
            const T mean_product = static_cast<T>(product / static_cast<double>(shape.columns));
            for (int64_t i = 0; i < shape.columns; ++i) {
              const T g = gamma == nullptr ? dy[i] : dy[i] * gamma[i];
              dx[i] = (g - mean_g - (x[i] - mean) * inverse * mean_product) * inverse;
            }
          });
    });
  });
}

std::unique_ptr<Kernel> make_layer_norm_sums(const Problem& problem) {
  const RowShape shape = row_shape(problem);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& stats = call.inputs[2];
      const Operand& y = call.outputs[0];
      auto* sums = reinterpret_cast<double*>(call.scratch);
      std::fill_n(sums, 2 * shape.columns, 0.0);
      for_each_row(shape, call.inputs[0], call.inputs[1], call.inputs[1], stats,
                   [&](int64_t gradient, int64_t from, int64_t, int64_t stat) {
                     const T* dy = data_of<const T>(call.inputs[0]) + gradient;
                     const T* x = data_of<const T>(call.inputs[1]) + from;
                     const T mean = data_of<const T>(stats)[stat];
                     const T inverse = data_of<const T>(stats)[stat + 1];
                     for (int64_t i = 0; i < shape.columns; ++i) {
                       const T normal = (x[i] - mean) * inverse;
                       sums[i] += static_cast<double>(dy[i]);
                       sums[shape.columns + i] +=
                           static_cast<double>(dy[i]) * static_cast<double>(normal);
                     }
                   });
      for (int64_t row = 0; row < 2; ++row) {
        T* out = data_of<T>(y) + row * y.strides[0];
        for (int64_t i = 0; i < shape.columns; ++i) {
          fold(out[i], sums[row * shape.columns + i], call.first);
        }
      }
    });
  });
}

// By the root mean square: y = x · inverse · scale.
std::unique_ptr<Kernel> make_rms_norm(const Problem& problem) {
  const RowShape shape = row_shape(problem);
  const double epsilon = problem.attributes.get_double("epsilon");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      const Operand& inverses = call.outputs[1];
      const T* scale = data_of<const T>(call.inputs[1]);
      const bool keeps = inverses.data != nullptr;
      const bool wanted = y.data != nullptr;
      for_each_row(shape, x, wanted ? y : x, x, keeps ? inverses : x,
                   [&](int64_t from, int64_t to, int64_t, int64_t row) {
                     const T* in = data_of<const T>(x) + from;
                     double squares = 0;
                     for (int64_t i = 0; i < shape.columns; ++i) {
                       squares += square(static_cast<double>(in[i]));
                     }
                     const double mean = squares / static_cast<double>(shape.columns);
                     const T inverse = static_cast<T>(1.0 / std::sqrt(mean + epsilon));
                     if (keeps) data_of<T>(inverses)[row] = inverse;
                     if (!wanted) return;
                     T* out = data_of<T>(y) + to;
                     for (int64_t i = 0; i < shape.columns; ++i) {
                       out[i] = in[i] * inverse * scale[i];
                     }
                   });
    });
  });
}

// dx = (g − x̂ · mean(g · x̂)) · inverse with g = dy · scale and x̂ = x · inverse
std::unique_ptr<Kernel> make_rms_norm_grad(const Problem& problem) {
  const RowShape shape = row_shape(problem);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& inverses = call.inputs[2];
      const T* scale = data_of<const T>(call.inputs[3]);
      for_each_row(shape, call.inputs[0], call.inputs[1], call.outputs[0], inverses,
                   [&](int64_t gradient, int64_t from, int64_t to, int64_t row) {
                     const T* dy = data_of<const T>(call.inputs[0]) + gradient;
                     const T* x = data_of<const T>(call.inputs[1]) + from;
                     T* dx = data_of<T>(call.outputs[0]) + to;
                     const T inverse = data_of<const T>(inverses)[row];
                     double product = 0;
                     for (int64_t i = 0; i < shape.columns; ++i) {
                       product += static_cast<double>(dy[i] * scale[i]) *
                                  static_cast<double>(x[i] * inverse);
                     }
                     const T mean = static_cast<T>(product / static_cast<double>(shape.columns));
                     for (int64_t i = 0; i < shape.columns; ++i) {
                       dx[i] = (dy[i] * scale[i] - x[i] * inverse * mean) * inverse;
                     }
                   });
    });
  });
}

std::unique_ptr<Kernel> make_rms_norm_sums(const Problem& problem) {
  const RowShape shape = row_shape(problem);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& inverses = call.inputs[2];
      auto* sums = reinterpret_cast<double*>(call.scratch);
      std::fill_n(sums, shape.columns, 0.0);
      for_each_row(shape, call.inputs[0], call.inputs[1], call.inputs[1], inverses,
                   [&](int64_t gradient, int64_t from, int64_t, int64_t row) {
                     const T* dy = data_of<const T>(call.inputs[0]) + gradient;
                     const T* x = data_of<const T>(call.inputs[1]) + from;
                     const T inverse = data_of<const T>(inverses)[row];
                     for (int64_t i = 0; i < shape.columns; ++i) {
                       sums[i] += static_cast<double>(dy[i]) * static_cast<double>(x[i] * inverse);
                     }
                   });
      T* out = data_of<T>(call.outputs[0]);
      for (int64_t i = 0; i < shape.columns; ++i) fold(out[i], sums[i], call.first);
    });
  });
}

Bytes rms_sums_scratch(const Problem& problem) {
  return Bytes(row_shape(problem).columns * int64_t{sizeof(double)});
}

Bytes sums_scratch(const Problem& problem) {
  return Bytes(2 * row_shape(problem).columns * int64_t{sizeof(double)});
}

constexpr KernelEntry kEntries[] = {
    {"layer_norm", make_layer_norm},
    {"layer_norm_grad", make_layer_norm_grad},
    {"layer_norm_sums", make_layer_norm_sums, sums_scratch},
    {"rms_norm", make_rms_norm},
    {"rms_norm_grad", make_rms_norm_grad},
    {"rms_norm_sums", make_rms_norm_sums, rms_sums_scratch},
};

}  // namespace

std::span<const KernelEntry> layer_norm_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
