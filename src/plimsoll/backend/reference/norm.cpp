// BatchNormalization: moments merged over blocks, the map, its two sums, and the gradient.

#include <algorithm>

#include "backend/reference/channel_moments.h"
#include "ops/rules.h"

namespace plimsoll::backend::reference {
namespace {

// 1 / sqrt(variance + epsilon)
template <typename T>
double inverse_deviation(T variance, double epsilon) {
  return 1.0 / std::sqrt(static_cast<double>(variance) + epsilon);
}

// Joins (mean, M2) of `before` rows with those of `added` further ones.
// Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances" (1979).
template <typename T>
void merge_moments(T& mean, T& m2, double before, double added_mean, double added_m2,
                   double added) {
  const double total = before + added;
  const double delta = added_mean - static_cast<double>(mean);
  const double merged_m2 =
      static_cast<double>(m2) + added_m2 + delta * delta * (before * added / total);
  mean = static_cast<T>(static_cast<double>(mean) + delta * (added / total));
  m2 = static_cast<T>(merged_m2);
}

std::unique_ptr<Kernel> make_channel_moments(const Problem& problem) {
  const int64_t rows_per_sample = ops::rows_per_sample(problem.whole_inputs[0].shape);
  const bool batched = problem.axis(graph::kBatchAxis) >= 0;
  // Rows of the samples of this call that lie in one row of their images.
  const int64_t width = problem.rows_axis < 0 ? 0 : problem.inputs[0].shape[2].count;
  const auto image_axis = static_cast<size_t>(std::max(problem.rows_axis, 0));
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const int64_t channels = row_length(x);
      const int64_t row_count = count_of(x) / channels;
      const auto rows = static_cast<double>(row_count);
      auto* means = reinterpret_cast<double*>(call.scratch);
      double* m2s = means + channels;
      find_channel_moments<T>(x, means, m2s);
      T* mean = data_of<T>(call.outputs[0]);
      T* m2 = mean + call.outputs[0].strides[0];
      const int64_t above = width == 0 ? 0 : x.dims[0] * call.begin[image_axis] * width;
      const auto before = static_cast<double>(
          (batched ? (call.begin[0] - call.lane) * rows_per_sample : 0) + above);
      for (int64_t c = 0; c < channels; ++c) {
        if (call.first) {
          mean[c] = static_cast<T>(means[c]);
          m2[c] = static_cast<T>(m2s[c]);
        } else {
          merge_moments(mean[c], m2[c], before, means[c], m2s[c], rows);
        }
      }
    });
  });
}

// y = (x − mean) scale + shift, channel by channel; factors are (mean, scale, shift).
template <typename T>
void normalize(const Operand& x, const Operand& y, const double* factors, int64_t channels) {
  for_each_index<2>(row_dims(x), {x.strides, y.strides}, [&](const auto& at, int64_t) {
    const T* in = data_of<T>(x) + at[0];
    T* out = data_of<T>(y) + at[1];
    for (int64_t c = 0; c < channels; ++c) {
      const double* f = factors + 3 * c;
      out[c] = static_cast<T>((static_cast<double>(in[c]) - f[0]) * f[1] + f[2]);
    }
  });
}

// Rows of the whole batch.
class BatchRows {
 public:
  explicit BatchRows(const Problem& problem)
      : batch_(problem.batch), per_sample_(ops::rows_per_sample(problem.whole_inputs[0].shape)) {}
  double of(const KernelCall& call) const {
    return static_cast<double>(call.all_samples(batch_) * per_sample_);
  }

 private:
  int64_t batch_;
  int64_t per_sample_;
};

// Both forms; `given`: mean and variance are operands 1 and 2, else moments are operand 1.
template <bool kGiven>
std::unique_ptr<Kernel> make_batch_norm(const Problem& problem) {
  const double epsilon = problem.attributes.get_double("epsilon");
  const bool scale = problem.attributes.get_bool("scale", true);
  const bool center = problem.attributes.get_bool("center", true);
  const BatchRows batch_rows(problem);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const double rows = batch_rows.of(call);
      const Operand& x = call.inputs[0];
      const int64_t channels = row_length(x);
      const T* mean = data_of<T>(call.inputs[1]);
      const T* variance = kGiven ? data_of<T>(call.inputs[2]) : mean + call.inputs[1].strides[0];
      size_t next = kGiven ? 3 : 2;
      const T* gamma = scale ? data_of<T>(call.inputs[next++]) : nullptr;
      const T* beta = center ? data_of<T>(call.inputs[next]) : nullptr;
      auto* factors = reinterpret_cast<double*>(call.scratch);
      for (int64_t c = 0; c < channels; ++c) {
        const double v =
            kGiven ? static_cast<double>(variance[c]) : static_cast<double>(variance[c]) / rows;
        factors[3 * c] = static_cast<double>(mean[c]);
        factors[3 * c + 1] = inverse_deviation(v, epsilon) *
                             (gamma == nullptr ? 1.0 : static_cast<double>(gamma[c]));
        factors[3 * c + 2] = beta == nullptr ? 0.0 : static_cast<double>(beta[c]);
      }
      normalize<T>(x, call.outputs[0], factors, channels);
    });
  });
}

// Rows Σ dy and Σ dy x̂.
template <bool kGiven>
std::unique_ptr<Kernel> make_batch_norm_sums(const Problem& problem) {
  const double epsilon = problem.attributes.get_double("epsilon");
  const BatchRows batch_rows(problem);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const double rows = batch_rows.of(call);
      const Operand& dy = call.inputs[0];
      const Operand& x = call.inputs[1];
      const int64_t channels = row_length(dy);
      const T* mean = data_of<T>(call.inputs[2]);
      const T* variance = kGiven ? data_of<T>(call.inputs[3]) : mean + call.inputs[2].strides[0];
      auto* sums = reinterpret_cast<double*>(call.scratch);
      double* products = sums + channels;
      std::fill(sums, products + channels, 0.0);
      for_each_index<2>(row_dims(dy), {dy.strides, x.strides}, [&](const auto& at, int64_t) {
        const T* gradient = data_of<T>(dy) + at[0];
        const T* in = data_of<T>(x) + at[1];
        for (int64_t c = 0; c < channels; ++c) {
          const auto g = static_cast<double>(gradient[c]);
          sums[c] += g;
          products[c] += g * (static_cast<double>(in[c]) - static_cast<double>(mean[c]));
        }
      });
      T* out = data_of<T>(call.outputs[0]);
      T* second = out + call.outputs[0].strides[0];
      for (int64_t c = 0; c < channels; ++c) {
        const double v =
            kGiven ? static_cast<double>(variance[c]) : static_cast<double>(variance[c]) / rows;
        fold(out[c], sums[c], call.first);
        fold(second[c], products[c] * inverse_deviation(v, epsilon), call.first);
      }
    });
  });
}

std::unique_ptr<Kernel> make_batch_norm_grad(const Problem& problem) {
  const double epsilon = problem.attributes.get_double("epsilon");
  const bool scale = problem.attributes.get_bool("scale", true);
  const BatchRows batch_rows(problem);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const double rows = batch_rows.of(call);
      const Operand& dy = call.inputs[0];
      const Operand& x = call.inputs[1];
      const Operand& dx = call.outputs[0];
      const int64_t channels = row_length(dy);
      const T* mean = data_of<T>(call.inputs[2]);
      const T* m2 = mean + call.inputs[2].strides[0];
      const T* sums = data_of<T>(call.inputs[3]);
      const T* products = sums + call.inputs[3].strides[0];
      const T* gamma = scale ? data_of<T>(call.inputs[4]) : nullptr;
      auto* inverse = reinterpret_cast<double*>(call.scratch);
      for (int64_t c = 0; c < channels; ++c) {
        inverse[c] = inverse_deviation(static_cast<double>(m2[c]) / rows, epsilon);
      }
      for_each_index<3>(
          row_dims(dy), {dy.strides, x.strides, dx.strides}, [&](const auto& at, int64_t) {
            const T* gradient = data_of<T>(dy) + at[0];
            const T* in = data_of<T>(x) + at[1];
            T* out = data_of<T>(dx) + at[2];
            for (int64_t c = 0; c < channels; ++c) {
              const double normal =
                  (static_cast<double>(in[c]) - static_cast<double>(mean[c])) * inverse[c];
              const double inner = static_cast<double>(gradient[c]) -
                                   static_cast<double>(sums[c]) / rows -
                                   normal * (static_cast<double>(products[c]) / rows);
              const double factor = gamma == nullptr ? 1.0 : static_cast<double>(gamma[c]);
              out[c] = static_cast<T>(factor * inverse[c] * inner);
            }
          });
    });
  });
}

std::unique_ptr<Kernel> make_batch_norm_inference_grad(const Problem& problem) {
  const double epsilon = problem.attributes.get_double("epsilon");
  const bool scale = problem.attributes.get_bool("scale", true);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& dy = call.inputs[0];
      const Operand& dx = call.outputs[0];
      const int64_t channels = row_length(dy);
      auto* factors = reinterpret_cast<double*>(call.scratch);
      for (int64_t c = 0; c < channels; ++c) {
        const double gamma = scale ? static_cast<double>(data_of<T>(call.inputs[2])[c]) : 1.0;
        factors[3 * c] = 0.0;
        factors[3 * c + 1] = gamma * inverse_deviation(data_of<T>(call.inputs[1])[c], epsilon);
        factors[3 * c + 2] = 0.0;
      }
      normalize<T>(dy, dx, factors, channels);
    });
  });
}

std::unique_ptr<Kernel> make_take_row(const Problem& problem) {
  const int64_t row = problem.attributes.get_int("row");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([row](const KernelCall& call) {
      const T* in = data_of<T>(call.inputs[0]) + row * call.inputs[0].strides[0];
      std::copy_n(in, count_of(call.outputs[0]), data_of<T>(call.outputs[0]));
    });
  });
}

std::unique_ptr<Kernel> make_moving_average(const Problem& problem) {
  const graph::Attributes& attributes = problem.attributes;
  const int64_t row = attributes.get_int("row");
  const double momentum = attributes.get_double("momentum");
  const int64_t per_sample = row == 0 ? 0 : attributes.get_int("elements_per_sample");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=, batch = problem.batch](const KernelCall& call) {
      const int64_t count = row == 0 ? 1 : call.all_samples(batch) * per_sample;
      const T keep = static_cast<T>(momentum);
      const T take = static_cast<T>(1.0 - momentum);
      const T* moving = data_of<T>(call.inputs[0]);
      const T* value = data_of<T>(call.inputs[1]) + row * call.inputs[1].strides[0];
      T* out = data_of<T>(call.outputs[0]);
      const int64_t channels = count_of(call.outputs[0]);
      for (int64_t i = 0; i < count_of(call.inputs[1]) / 2; ++i) {
        const int64_t c = i % channels;
        const T before = i < channels ? moving[c] : out[c];
        out[c] = before * keep + value[i] / static_cast<T>(count) * take;
      }
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"batch_norm", make_batch_norm<false>, channel_scratch<3>},
    {"batch_norm_grad", make_batch_norm_grad, channel_scratch<1>},
    {"batch_norm_inference", make_batch_norm<true>, channel_scratch<3>},
    {"batch_norm_inference_grad", make_batch_norm_inference_grad, channel_scratch<3>},
    {"batch_norm_inference_sums", make_batch_norm_sums<true>, channel_scratch<2>},
    {"batch_norm_sums", make_batch_norm_sums<false>, channel_scratch<2>},
    {"channel_moments", make_channel_moments, channel_scratch<2>},
    {"moving_average", make_moving_average},
    {"take_row", make_take_row},
};

}  // namespace

std::span<const KernelEntry> norm_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
