// Projections of weights by their norms, sums in double.

#include <algorithm>
#include <limits>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

// Keras's epsilon.
constexpr double kEpsilon = 1e-7;

// Where a weight's element finds its norm: the dimensions that a norm runs over have stride 0.
struct NormStrides {
  std::array<int64_t, kMaxRank> strides{};
  int64_t count = 1;  // norms
};

NormStrides norm_strides(const Shape& w, const std::vector<int64_t>& axes) {
  NormStrides result;
  for (int d = w.rank(); d-- > 0;) {
    if (std::find(axes.begin(), axes.end(), d) != axes.end()) continue;
    result.strides[static_cast<size_t>(d)] = result.count;
    result.count *= w[d].count;
  }
  return result;
}

// factor(norm) → what the elements under that norm are multiplied by.
template <typename T, typename Factor>
std::unique_ptr<Kernel> by_norm(const Problem& problem, Factor factor) {
  const Shape& shape = problem.inputs[0].shape;
  const NormStrides norms = norm_strides(shape, problem.attributes.get_ints("axes"));
  return kernel_of([norms, factor](const KernelCall& call) {
    const Operand& w = call.inputs[0];
    auto* sums = reinterpret_cast<double*>(call.scratch);
    std::fill(sums, sums + norms.count, 0.0);
    const Strides to_norm(norms.strides.data(), w.dims.size());
    for_each_index<2>(w.dims, {w.strides, to_norm}, [&](const auto& at, int64_t) {
      sums[at[1]] += square(data_of<T>(w)[at[0]]);
    });
    for (int64_t i = 0; i < norms.count; ++i) {
      sums[i] = static_cast<double>(factor(static_cast<T>(std::sqrt(sums[i]))));
    }
    const Operand& y = call.outputs[0];
    for_each_index<3>(w.dims, {w.strides, to_norm, y.strides}, [&](const auto& at, int64_t) {
      data_of<T>(y)[at[2]] = data_of<T>(w)[at[0]] * static_cast<T>(sums[at[1]]);
    });
  });
}

Bytes norm_scratch(const Problem& problem) {
  const Shape& shape = problem.inputs[0].shape;
  return Bytes(norm_strides(shape, problem.attributes.get_ints("axes")).count *
               int64_t{sizeof(double)});
}

std::unique_ptr<Kernel> make_unit_norm(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return by_norm<T>(problem, [](T norm) { return T(1) / (static_cast<T>(kEpsilon) + norm); });
  });
}

std::unique_ptr<Kernel> make_clip_norm(const Problem& problem) {
  const double least = problem.attributes.get_double("min_value");
  const double most = problem.attributes.get_double("max_value");
  const double rate = problem.attributes.get_double("rate");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return by_norm<T>(problem, [low = static_cast<T>(least), high = static_cast<T>(most),
                                share = static_cast<T>(rate)](T norm) {
      const T clipped = std::min(std::max(norm, low), high);
      const T wanted = share == T(1) ? clipped : share * clipped + (T(1) - share) * norm;
      return wanted / (static_cast<T>(kEpsilon) + norm);
    });
  });
}

constexpr KernelEntry kEntries[] = {{"clip_norm", make_clip_norm, norm_scratch},
                                    {"unit_norm", make_unit_norm, norm_scratch}};

}  // namespace

std::span<const KernelEntry> constraint_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
