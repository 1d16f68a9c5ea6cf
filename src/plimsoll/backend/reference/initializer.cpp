// Initial values, drawn as ops/training/random_fill.h says.

#include <algorithm>
#include <array>
#include <span>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "ops/training/random_fill.h"

namespace plimsoll::backend::reference {
namespace {

using Fill = void (Philox::*)(uint64_t first, std::span<float> drawn) const;

// y[i] = element(stream, number i of `fill`, i, count); numbers are drawn many at a time, as one by
// one takes several times as long.
template <typename Element>
std::unique_ptr<Kernel> random(const Problem& problem, Fill fill, Element element) {
  const int64_t site = problem.attributes.get_int("site");
  return for_float(problem.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([site, fill, element](const KernelCall& call) {
      const Philox stream = ops::initializer_stream(call.step->seed, site);
      T* y = data_of<T>(call.outputs[0]);
      const auto count = static_cast<uint64_t>(count_of(call.outputs[0]));
      std::array<float, 1024> drawn;
      for (uint64_t from = 0; from < count; from += drawn.size()) {
        const uint64_t now = std::min<uint64_t>(drawn.size(), count - from);
        (stream.*fill)(from, std::span(drawn).first(now));
        for (uint64_t i = 0; i < now; ++i) {
          y[from + i] = static_cast<T>(element(stream, drawn[i], from + i, count));
        }
      }
    });
  });
}

std::unique_ptr<Kernel> make_uniform(const Problem& problem) {
  const double low = problem.attributes.get_double("minval");
  const double high = problem.attributes.get_double("maxval");
  return random(problem, &Philox::fill_uniform, [=](const Philox&, float u, uint64_t, uint64_t) {
    return ops::uniform_from_draw(u, low, high);
  });
}

std::unique_ptr<Kernel> make_normal(const Problem& problem) {
  const double mean = problem.attributes.get_double("mean");
  const double stddev = problem.attributes.get_double("stddev");
  return random(problem, &Philox::fill_normal, [=](const Philox&, float z, uint64_t, uint64_t) {
    return ops::normal_from_draw(z, mean, stddev);
  });
}

std::unique_ptr<Kernel> make_truncated_normal(const Problem& problem) {
  const double mean = problem.attributes.get_double("mean");
  const double stddev = problem.attributes.get_double("stddev");
  return random(problem, &Philox::fill_normal,
                [=](const Philox& stream, float z, uint64_t i, uint64_t count) {
                  return ops::truncated_normal_from_draw(stream, z, i, count, mean, stddev);
                });
}

// (rows, columns) of a value seen as a matrix: all dimensions but the last, and the last.
struct Matrix {
  int64_t rows = 1;
  int64_t columns = 1;
};
Matrix matrix_of(const Problem& problem) {
  const Shape& shape = problem.outputs[0].shape;
  const int64_t columns = shape[shape.rank() - 1].count;
  return {shape.elements_per_sample() / columns, columns};
}

std::unique_ptr<Kernel> make_orthogonal(const Problem& problem) {
  const Matrix matrix = matrix_of(problem);
  const double gain = problem.attributes.get_double("gain");
  const int64_t site = problem.attributes.get_int("site");
  return for_float(problem.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      auto* q = reinterpret_cast<double*>(call.scratch);
      const int64_t tall = std::max(matrix.rows, matrix.columns);
      const int64_t narrow = std::min(matrix.rows, matrix.columns);
      ops::fill_orthonormal(ops::initializer_stream(call.step->seed, site), tall, narrow, q);
      T* y = data_of<T>(call.outputs[0]);
      for (int64_t r = 0; r < matrix.rows; ++r) {
        for (int64_t c = 0; c < matrix.columns; ++c) {
          const double value = matrix.rows < matrix.columns ? q[c * narrow + r] : q[r * narrow + c];
          y[r * matrix.columns + c] = static_cast<T>(gain * value);
        }
      }
    });
  });
}

Bytes matrix_scratch(const Problem& problem) {
  const Matrix matrix = matrix_of(problem);
  return Bytes(matrix.rows * matrix.columns * int64_t{sizeof(double)});
}

std::unique_ptr<Kernel> make_identity(const Problem& problem) {
  const Matrix matrix = matrix_of(problem);
  const double gain = problem.attributes.get_double("gain");
  return for_float(problem.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      T* y = data_of<T>(call.outputs[0]);
      for (int64_t i = 0; i < matrix.rows * matrix.columns; ++i) {
        y[i] = i / matrix.columns == i % matrix.columns ? static_cast<T>(gain) : T(0);
      }
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"identity", make_identity},
    {"orthogonal", make_orthogonal, matrix_scratch},
    {"random_normal", make_normal},
    {"random_uniform", make_uniform},
    {"truncated_normal", make_truncated_normal},
};

}  // namespace

std::span<const KernelEntry> initializer_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
