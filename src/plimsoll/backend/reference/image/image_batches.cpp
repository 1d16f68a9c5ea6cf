// Images equalized by the histogram of their batch, and mixed with others of it.

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "backend/reference/image_loops.h"
#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "ops/image/image_draws.h"

namespace plimsoll::backend::reference {
namespace {

constexpr int64_t kMostBins = 4096;
constexpr double kMostLevel = 255;

// The range of values as [0, 255], the bins in it, and back.
template <typename T>
class Levels {
 public:
  explicit Levels(const Problem& problem)
      : low_(problem.attributes.get_double("value_low")),
        high_(problem.attributes.get_double("value_high")),
        bins_(problem.attributes.get_int("bins")),
        whole_(low_ == 0 && high_ == kMostLevel) {}

  int64_t bins() const { return bins_; }

  T level(T x) const {
    if (whole_) return x;
    const double scale = kMostLevel / (high_ - low_);
    return x * static_cast<T>(scale) + static_cast<T>(-low_ * scale);
  }
  double value(double level) const {
    if (whole_) return level;
    const double scale = (high_ - low_) / kMostLevel;
    return level * scale + low_;
  }
  // Where the histogram counts a level.
  int64_t counted_in(T level) const {
    return inside(level * static_cast<T>(bins_ - 1) / static_cast<T>(kMostLevel));
  }
  // Where its new level is looked up: Keras rounds otherwise there.
  int64_t looked_up_in(T level) const {
    return inside(level / static_cast<T>(kMostLevel) * static_cast<T>(bins_ - 1));
  }

 private:
  // A NaN is counted in the first.
  int64_t inside(T at) const {
    const T last = static_cast<T>(bins_ - 1);
    return at >= last ? bins_ - 1 : at > T(0) ? static_cast<int64_t>(at) : 0;
  }

  double low_;
  double high_;
  int64_t bins_;
  bool whole_;
};

std::unique_ptr<Kernel> make_histogram(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([levels = Levels<T>(problem)](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& counts = call.outputs[0];
      if (call.first) {
        for_each_run<1>(counts.dims, {counts.strides}, [&](const auto& at, int64_t, int64_t count) {
          std::fill_n(data_of<int64_t>(counts) + at[0], count, int64_t{0});
        });
      }
      for (int64_t n = 0; n < x.dims[0]; ++n) {
        for (int64_t i = 0; i < x.dims[1]; ++i) {
          for (int64_t j = 0; j < x.dims[2]; ++j) {
            const T* in = pixel<const T>(x, n, i, j);
            for (int64_t k = 0; k < x.dims[3]; ++k) {
              const int64_t bin = levels.counted_in(levels.level(in[k]));
              ++data_of<int64_t>(counts)[k * counts.strides[0] + bin];
            }
          }
        }
      }
    });
  });
}

// The new level of each bin; false where all numbers lie in one.
bool fill_table(const int64_t* counts, int64_t bins, std::array<double, kMostBins>& table) {
  int64_t some = 0;
  int64_t first = 0;
  int64_t sum = 0;
  for (int64_t b = 0; b < bins; ++b) {
    some += counts[b] != 0 ? 1 : 0;
    if (first == 0) first = counts[b];
    sum += counts[b];
    table[static_cast<size_t>(b)] = static_cast<double>(sum);
  }
  if (some <= 1) return false;
  const auto below = static_cast<double>(first);
  const double range = sum == first ? 1 : static_cast<double>(sum) - below;
  for (int64_t b = 0; b < bins; ++b) {
    double& level = table[static_cast<size_t>(b)];
    level = std::clamp(std::nearbyint((level - below) * kMostLevel / range), 0.0, kMostLevel);
  }
  return true;
}

std::unique_ptr<Kernel> make_equalize(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([levels = Levels<T>(problem)](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& counts = call.inputs[1];
      const Operand& y = call.outputs[0];
      std::array<double, kMostBins> table;
      for (int64_t k = 0; k < x.dims[3]; ++k) {
        const bool spreads = fill_table(data_of<const int64_t>(counts) + k * counts.strides[0],
                                        levels.bins(), table);
        for (int64_t n = 0; n < x.dims[0]; ++n) {
          for (int64_t i = 0; i < x.dims[1]; ++i) {
            for (int64_t j = 0; j < x.dims[2]; ++j) {
              const T level = levels.level(pixel<const T>(x, n, i, j)[k]);
              const double found = spreads ? table[static_cast<size_t>(levels.looked_up_in(level))]
                                           : static_cast<double>(level);
              pixel<T>(y, n, i, j)[k] = static_cast<T>(levels.value(found));
            }
          }
        }
      }
    });
  });
}

// The second operand is the whole batch.
Bytes permutation_bytes(const Problem& problem) {
  return Bytes(8) * (problem.batch * problem.inputs[1].shape[0].count);
}

void fill_permutation(const ops::ImageDraws& draws, int64_t* order, int64_t count) {
  for (int64_t i = 0; i < count; ++i) order[i] = i;
  for (int64_t i = count - 1; i > 0; --i) {
    const auto at =
        static_cast<int64_t>(draws.of_batch(static_cast<int>(i)) * static_cast<float>(i + 1));
    std::swap(order[i], order[std::min(at, i)]);
  }
}

// What is mixed of a sample.
struct Mix {
  float share = 1;  // of the sample's own image
  float top = 0;
  float bottom = 0;
  float left = 0;
  float right = 0;

  bool holds(int64_t row, int64_t column) const {
    const auto i = static_cast<float>(row);
    const auto j = static_cast<float>(column);
    return i >= top && i < bottom && j >= left && j < right;
  }
};

Mix mix_of(const ops::ImageDraws& draws, int64_t row, double alpha, int64_t height, int64_t width) {
  Mix mix;
  mix.share = draws.beta(row, alpha);
  const float side = std::sqrt(1.0F - mix.share);
  const auto place = [&](int k, int64_t extent, float& begin, float& end) {
    const auto size = static_cast<float>(extent);
    begin = draws.of_row(row, k) * (size - side * size);
    end = begin + side * size;
  };
  place(0, width, mix.left, mix.right);
  place(1, height, mix.top, mix.bottom);
  return mix;
}

std::unique_ptr<Kernel> make_mix(const Problem& problem) {
  const bool blends = problem.attributes.get_string("kind") == "blend";
  const double lower = problem.attributes.get_double("alpha_lower");
  const double upper = problem.attributes.get_double("alpha_upper");
  const int64_t site = problem.attributes.get_int("site");
  const int batch_axis = problem.axis(graph::kBatchAxis);
  const int64_t rows = problem.inputs[0].shape[0].count;
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& all = call.inputs[1];
      const Operand& y = call.outputs[0];
      const ops::ImageDraws draws(call.step->seed, call.step->step, site);
      auto* order = reinterpret_cast<int64_t*>(call.scratch);
      fill_permutation(draws, order, all.dims[0]);
      const double alpha = ops::between(lower, upper, draws.of_batch(0));
      const int64_t first = batch_axis < 0 ? 0 : call.begin[static_cast<size_t>(batch_axis)] * rows;
      for (int64_t n = 0; n < y.dims[0]; ++n) {
        const Mix mix = mix_of(draws, first + n, alpha, y.dims[1], y.dims[2]);
        const T share = static_cast<T>(mix.share);
        for (int64_t i = 0; i < y.dims[1]; ++i) {
          for (int64_t j = 0; j < y.dims[2]; ++j) {
            const T* own = pixel<const T>(x, n, i, j);
            const T* other = pixel<const T>(all, order[first + n], i, j);
            T* out = pixel<T>(y, n, i, j);
            const bool pasted = !blends && mix.holds(i, j);
            for (int64_t k = 0; k < y.dims[3]; ++k) {
              out[k] = blends ? share * own[k] + (T(1) - share) * other[k]
                              : (pasted ? other[k] : own[k]);
            }
          }
        }
      }
    });
  });
}

std::unique_ptr<Kernel> make_choose(const Problem& problem) {
  const int64_t choices = problem.attributes.get_int("choices");
  const int64_t choice = problem.attributes.get_int("choice");
  const int64_t site = problem.attributes.get_int("site");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const ops::ImageDraws draws(call.step->seed, call.step->step, site);
      const auto drawn = static_cast<int64_t>(draws.of_batch(0) * static_cast<float>(choices));
      const bool first = std::min(drawn, choices - 1) == choice;
      for_each_pair<T>(call.inputs[0], call.inputs[1], call.outputs[0],
                       [first](T a, T b) { return first ? a : b; });
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"image_choose", make_choose},
    {"image_equalize", make_equalize},
    {"image_histogram", make_histogram},
    {"image_mix", make_mix, permutation_bytes},
};

}  // namespace

std::span<const KernelEntry> image_batch_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
