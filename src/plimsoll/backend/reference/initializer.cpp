// Initial values, drawn as ops/training/random_fill.h says.

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <string>

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

struct WindowSum {
  std::string_view name;
  std::array<double, 5> terms;
};
// scipy.signal.windows: Σ (−1)^k term_k cos(2π k t / (T − 1)).
constexpr WindowSum kWindows[] = {
    {"blackman", {0.42, 0.5, 0.08, 0, 0}},
    {"blackmanharris", {0.35875, 0.48829, 0.14128, 0.01168, 0}},
    {"boxcar", {1, 0, 0, 0, 0}},
    {"flattop", {0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368}},
    {"hamming", {0.54, 0.46, 0, 0, 0}},
    {"hann", {0.5, 0.5, 0, 0, 0}},
    {"none", {1, 0, 0, 0, 0}},
    {"nuttall", {0.3635819, 0.4891775, 0.1365995, 0.0106411, 0}},
};

double window_at(const std::array<double, 5>& terms, int64_t t, int64_t length, bool periodic) {
  if (length < 2) return 1.0;
  const auto span = static_cast<double>(periodic ? length : length - 1);
  const double angle = 2 * std::numbers::pi * static_cast<double>(t) / span;
  double sum = 0;
  for (size_t k = 0; k < terms.size(); ++k) {
    const double term = terms[k] * std::cos(static_cast<double>(k) * angle);
    sum += k % 2 == 0 ? term : -term;
  }
  return sum;
}

std::unique_ptr<Kernel> make_fourier_waves(const Problem& problem) {
  const Shape& shape = problem.outputs[0].shape;
  const int64_t length = shape[0].count;
  const int64_t frequencies = shape[2].count;
  const bool imag = problem.attributes.get_string("side") == "imag";
  const bool periodic = problem.attributes.get_bool("periodic", false);
  const std::string name = problem.attributes.get_string("window");
  const std::string scaling = name == "none" ? "none" : problem.attributes.get_string("scaling");
  const auto* window = std::ranges::find(kWindows, name, &WindowSum::name);
  const std::array<double, 5> terms = window->terms;
  double scale = 0;
  for (int64_t t = 0; t < length; ++t) {
    const double w = window_at(terms, t, length, periodic);
    scale += scaling == "density" ? w * w : std::abs(w);
  }
  if (scaling == "density") scale = std::sqrt(scale);
  if (scaling == "none") scale = 1;
  return for_float(problem.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      T* y = data_of<T>(call.outputs[0]);
      for (int64_t t = 0; t < length; ++t) {
        const double height = window_at(terms, t, length, periodic) / scale;
        for (int64_t f = 0; f < frequencies; ++f) {
          // Whole periods taken off, so that the angle is exact.
          const int64_t part = t * f % (2 * (frequencies - 1));
          const double angle =
              -std::numbers::pi * static_cast<double>(part) / static_cast<double>(frequencies - 1);
          y[t * frequencies + f] =
              static_cast<T>(height * (imag ? std::sin(angle) : std::cos(angle)));
        }
      }
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"fourier_waves", make_fourier_waves},
    {"identity", make_identity},
    {"orthogonal", make_orthogonal, matrix_scratch},
    {"random_normal", make_normal},
    {"random_uniform", make_uniform},
    {"truncated_normal", make_truncated_normal},
};

}  // namespace

std::span<const KernelEntry> initializer_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
