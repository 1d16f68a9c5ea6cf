// What surrounds optimizer updates: clipped gradients and scheduled rates; and noise.

#include <algorithm>
#include <cmath>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "base/hash.h"
#include "base/philox.h"
#include "ops/training/schedule.h"

namespace plimsoll::backend::reference {
namespace {

// f(x) for each element.
template <typename T, typename F>
void map_elements(const Operand& x, const Operand& y, F f) {
  for_each_run<2>(x.dims, {x.strides, y.strides}, [&](const auto& at, int64_t, int64_t count) {
    const T* in = data_of<const T>(x) + at[0];
    T* out = data_of<T>(y) + at[1];
    for (int64_t i = 0; i < count; ++i) out[i] = f(in[i]);
  });
}

std::unique_ptr<Kernel> make_clip_gradient(const Problem& problem) {
  const std::string kind = problem.attributes.get_string("kind");
  const double given = problem.attributes.get_double("limit");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T limit = static_cast<T>(given);
    if (kind == "value") {
      return kernel_of([limit](const KernelCall& call) {
        map_elements<T>(call.inputs[0], call.outputs[0], [limit](T g) {
          return g > limit ? limit : g < -limit ? -limit : g;
        });
      });
    }
    const bool global = kind == "global";
    return kernel_of([limit, global](const KernelCall& call) {
      const T squares = *data_of<const T>(call.inputs[1]);
      const T norm = squares > T(0) ? std::sqrt(squares) : squares;
      if (global) {
        const T scale = limit * std::min(T(1) / norm, T(1) / limit) + (norm - norm);
        map_elements<T>(call.inputs[0], call.outputs[0], [scale](T g) { return g * scale; });
        return;
      }
      const T divisor = std::max(norm, limit);
      map_elements<T>(call.inputs[0], call.outputs[0],
                      [limit, divisor](T g) { return g * limit / divisor; });
    });
  });
}

std::unique_ptr<Kernel> make_scheduled_rate(const Problem& problem) {
  return kernel_of([schedule = ops::read_schedule(problem.attributes)](const KernelCall& call) {
    *data_of<float>(call.outputs[0]) =
        ops::learning_rate_at(schedule, *data_of<const int64_t>(call.inputs[0]));
  });
}

template <typename T>
void take_one(const KernelCall& call, bool first) {
  const Operand& x = call.inputs[first ? 0 : 1];
  map_elements<T>(x, call.outputs[0], [](T value) { return value; });
}

bool is_finite(DType dtype, const Operand& number) {
  if (dtype == DType::kFloat64) return std::isfinite(*data_of<const double>(number));
  return std::isfinite(*data_of<const float>(number));
}

std::unique_ptr<Kernel> make_if_finite(const Problem& problem) {
  const DType number = problem.inputs[2].dtype;
  if (problem.inputs[0].dtype == DType::kInt64) {
    return kernel_of([number](const KernelCall& call) {
      take_one<int64_t>(call, is_finite(number, call.inputs[2]));
    });
  }
  return for_float(problem.inputs[0].dtype, [number](auto zero) {
    using T = decltype(zero);
    return kernel_of(
        [number](const KernelCall& call) { take_one<T>(call, is_finite(number, call.inputs[2])); });
  });
}

std::unique_ptr<Kernel> make_next_loss_scale(const Problem& problem) {
  const DType number = problem.inputs[2].dtype;
  const int64_t growth = problem.attributes.get_int("growth_steps");
  return for_float(problem.inputs[1].dtype, [number, growth](auto zero) {
    using T = decltype(zero);
    constexpr T kMostScale = T(1 << 24);
    return kernel_of([number, growth](const KernelCall& call) {
      const int64_t steps = *data_of<const int64_t>(call.inputs[0]);
      const T scale = *data_of<const T>(call.inputs[1]);
      const bool finite = is_finite(number, call.inputs[2]);
      const bool due = finite && steps == growth - 1;
      const bool grows = due && scale < kMostScale;
      *data_of<int64_t>(call.outputs[0]) = finite && !due ? steps + 1 : 0;
      *data_of<T>(call.outputs[1]) = scale * (finite ? (grows ? T(2) : T(1)) : T(0.5));
    });
  });
}

std::unique_ptr<Kernel> make_weight_average(const Problem& problem) {
  const double momentum = problem.attributes.get_double("momentum");
  const int64_t every = problem.attributes.get_int("overwrite_every");
  return for_float(problem.inputs[0].dtype, [momentum, every](auto zero) {
    using T = decltype(zero);
    return kernel_of([momentum, every](const KernelCall& call) {
      const int64_t steps = *data_of<const int64_t>(call.inputs[2]);
      const T keep = steps == 0 ? T(0) : static_cast<T>(momentum);
      const T take = T(1) - keep;
      const bool overwrites = every > 0 && (steps + 1) % every == 0;
      const T* w = data_of<const T>(call.inputs[0]);
      const T* a = data_of<const T>(call.inputs[1]);
      T* weight = data_of<T>(call.outputs[0]);
      T* average = data_of<T>(call.outputs[1]);
      const int64_t count = count_of(call.inputs[0]);
      for (int64_t i = 0; i < count; ++i) {
        const T value = w[i];
        const T next = keep * a[i] + take * value;
        weight[i] = overwrites ? next : value;
        average[i] = next;
      }
    });
  });
}

Philox noise_stream(uint64_t seed, int64_t step, int64_t site) {
  return Philox(seed, Fingerprint()
                          .add(0x6e6f6973u)  // "nois": no other use of the seed shares it
                          .add(static_cast<uint64_t>(site))
                          .add(static_cast<uint64_t>(step))
                          .value());
}

template <bool kScales>
std::unique_ptr<Kernel> make_gaussian(const Problem& problem) {
  const double stddev = problem.attributes.get_double("stddev");
  const int64_t site = problem.attributes.get_int("site");
  const int batch_axis = problem.axis(graph::kBatchAxis);
  const int64_t per_sample = problem.inputs[0].shape.elements_per_sample();
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      const T deviation = static_cast<T>(stddev);
      const Philox stream = noise_stream(call.step->seed, call.step->step, site);
      const int64_t first = call.first_sample(batch_axis) * per_sample;
      for_each_run<2>(x.dims, {x.strides, y.strides},
                      [&](const auto& at, int64_t position, int64_t count) {
                        const T* in = data_of<const T>(x) + at[0];
                        T* out = data_of<T>(y) + at[1];
                        for (int64_t i = 0; i < count; ++i) {
                          const auto element = static_cast<uint64_t>(first + position + i);
                          const T noise = static_cast<T>(stream.normal(element)) * deviation;
                          out[i] = kScales ? in[i] * (T(1) + noise) : in[i] + noise;
                        }
                      });
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"clip_gradient", make_clip_gradient},   {"gaussian_noise", make_gaussian<false>},
    {"gaussian_scale", make_gaussian<true>}, {"gaussian_scale_grad", make_gaussian<true>},
    {"if_finite", make_if_finite},           {"next_loss_scale", make_next_loss_scale},
    {"scheduled_rate", make_scheduled_rate}, {"weight_average", make_weight_average},
};

}  // namespace

std::span<const KernelEntry> training_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
