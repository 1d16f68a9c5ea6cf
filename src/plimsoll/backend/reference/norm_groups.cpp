// BatchNormalization by groups of samples: a call is one group, with all that its statistics need.

#include <algorithm>

#include "backend/reference/channel_moments.h"

namespace plimsoll::backend::reference {
namespace {

// Mean and variance of each channel of a group.
struct GroupMoments {
  double* mean;
  double* variance;
  double rows;

  template <typename T>
  static GroupMoments of(const Operand& x, double* scratch) {
    const int64_t channels = row_length(x);
    const int64_t rows = count_of(x) / channels;
    const GroupMoments m{scratch, scratch + channels, static_cast<double>(rows)};
    find_channel_moments<T>(x, m.mean, m.variance);
    for (int64_t c = 0; c < channels; ++c) m.variance[c] /= m.rows;
    return m;
  }

  double inverse(int64_t c, double epsilon) const { return 1.0 / std::sqrt(variance[c] + epsilon); }
};

std::unique_ptr<Kernel> make_batch_norm_groups(const Problem& problem) {
  const double epsilon = problem.attributes.get_double("epsilon");
  const bool scale = problem.attributes.get_bool("scale", true);
  const bool center = problem.attributes.get_bool("center", true);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      const int64_t channels = row_length(x);
      const T* gamma = scale ? data_of<T>(call.inputs[1]) : nullptr;
      const T* beta = center ? data_of<T>(call.inputs[scale ? 2 : 1]) : nullptr;
      auto* scratch = reinterpret_cast<double*>(call.scratch);
      const GroupMoments moments = GroupMoments::of<T>(x, scratch);
      double* factors = scratch + 2 * channels;
      for (int64_t c = 0; c < channels; ++c) {
        const double factor = gamma == nullptr ? 1.0 : static_cast<double>(gamma[c]);
        factors[c] = moments.inverse(c, epsilon) * factor;
      }
      for_each_index<2>(row_dims(x), {x.strides, y.strides}, [&](const auto& at, int64_t) {
        const T* in = data_of<T>(x) + at[0];
        T* out = data_of<T>(y) + at[1];
        for (int64_t c = 0; c < channels; ++c) {
          const double shift = beta == nullptr ? 0.0 : static_cast<double>(beta[c]);
          out[c] =
              static_cast<T>((static_cast<double>(in[c]) - moments.mean[c]) * factors[c] + shift);
        }
      });
    });
  });
}

std::unique_ptr<Kernel> make_batch_norm_groups_grad(const Problem& problem) {
  const double epsilon = problem.attributes.get_double("epsilon");
  const bool scale = problem.attributes.get_bool("scale", true);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& dy = call.inputs[0];
      const Operand& x = call.inputs[1];
      const Operand& dx = call.outputs[0];
      const int64_t channels = row_length(dy);
      const T* gamma = scale ? data_of<T>(call.inputs[2]) : nullptr;
      auto* scratch = reinterpret_cast<double*>(call.scratch);
      const GroupMoments moments = GroupMoments::of<T>(x, scratch);
      double* sums = scratch + 2 * channels;
      double* products = sums + channels;  // Σ dy x̂
      std::fill_n(sums, 2 * channels, 0.0);
      for_each_index<2>(row_dims(dy), {dy.strides, x.strides}, [&](const auto& at, int64_t) {
        const T* gradient = data_of<T>(dy) + at[0];
        const T* in = data_of<T>(x) + at[1];
        for (int64_t c = 0; c < channels; ++c) {
          const auto g = static_cast<double>(gradient[c]);
          sums[c] += g;
          products[c] += g * (static_cast<double>(in[c]) - moments.mean[c]);
        }
      });
      double* inverses = products + channels;
      for (int64_t c = 0; c < channels; ++c) {
        inverses[c] = moments.inverse(c, epsilon);
        products[c] *= inverses[c];
      }
      if (dx.data != nullptr) {
        for_each_index<3>(
            row_dims(dy), {dy.strides, x.strides, dx.strides}, [&](const auto& at, int64_t) {
              const T* gradient = data_of<T>(dy) + at[0];
              const T* in = data_of<T>(x) + at[1];
              T* out = data_of<T>(dx) + at[2];
              for (int64_t c = 0; c < channels; ++c) {
                const double normal = (static_cast<double>(in[c]) - moments.mean[c]) * inverses[c];
                const double inner = static_cast<double>(gradient[c]) - sums[c] / moments.rows -
                                     normal * (products[c] / moments.rows);
                const double factor = gamma == nullptr ? 1.0 : static_cast<double>(gamma[c]);
                out[c] = static_cast<T>(factor * inverses[c] * inner);
              }
            });
      }
      if (call.outputs[1].data == nullptr) return;
      T* out = data_of<T>(call.outputs[1]);
      T* second = out + call.outputs[1].strides[0];
      for (int64_t c = 0; c < channels; ++c) {
        fold(out[c], sums[c], call.first);
        fold(second[c], products[c], call.first);
      }
    });
  });
}

std::unique_ptr<Kernel> make_moving_moments(const Problem& problem) {
  const double momentum = problem.attributes.get_double("momentum");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const GroupMoments moments = GroupMoments::of<T>(x, reinterpret_cast<double*>(call.scratch));
      const T keep = static_cast<T>(momentum);
      const T take = static_cast<T>(1.0 - momentum);
      for (size_t o : {size_t{0}, size_t{1}}) {
        T* out = data_of<T>(call.outputs[o]);
        if (out == nullptr) continue;
        const double* group = o == 0 ? moments.mean : moments.variance;
        const T* moving = call.first ? data_of<T>(call.inputs[1 + o]) : out;
        const int64_t channels = count_of(call.outputs[o]);
        for (int64_t i = 0; i < row_length(x); ++i) {
          const int64_t c = i % channels;
          const T before = i < channels ? moving[c] : out[c];
          out[c] = before * keep + static_cast<T>(group[i]) * take;
        }
      }
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"batch_norm_groups", make_batch_norm_groups, channel_scratch<3>, false},
    {"batch_norm_groups_grad", make_batch_norm_groups_grad, channel_scratch<5>, false},
    {"moving_moments", make_moving_moments, channel_scratch<2>, false},
};

}  // namespace

std::span<const KernelEntry> norm_groups_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
