// Optimizer updates, element by element in the element type, in Keras's order of operations.
//
// Weights and slots are whole and dense; every output may lie where its input lay.

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

// w − w · decay · lr, decay 0: w.
template <typename T>
struct WeightDecay {
  T decay = T(0);
  T operator()(T w, T lr) const { return decay == T(0) ? w : w - w * decay * lr; }
};

template <typename T>
WeightDecay<T> decay_of(const graph::Attributes& attributes) {
  return {static_cast<T>(attributes.get_double("weight_decay", 0.0))};
}

std::unique_ptr<Kernel> make_sgd(const Problem& problem) {
  const graph::Attributes& attributes = problem.attributes;
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([decay = decay_of<T>(attributes)](const KernelCall& call) {
      const T* w = data_of<T>(call.inputs[0]);
      const T* g = data_of<T>(call.inputs[1]);
      const T lr = *data_of<T>(call.inputs[2]);
      T* out = data_of<T>(call.outputs[0]);
      const int64_t count = count_of(call.inputs[0]);
      for (int64_t i = 0; i < count; ++i) out[i] = decay(w[i], lr) - g[i] * lr;
    });
  });
}

std::unique_ptr<Kernel> make_sgd_momentum(const Problem& problem) {
  const graph::Attributes& attributes = problem.attributes;
  const double momentum = attributes.get_double("momentum");
  const bool nesterov = attributes.get_bool("nesterov", false);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=, decay = decay_of<T>(attributes)](const KernelCall& call) {
      const T* w = data_of<T>(call.inputs[0]);
      const T* g = data_of<T>(call.inputs[1]);
      const T* m = data_of<T>(call.inputs[2]);
      const T lr = *data_of<T>(call.inputs[3]);
      const T keep = static_cast<T>(momentum);
      T* new_w = data_of<T>(call.outputs[0]);
      T* new_m = data_of<T>(call.outputs[1]);
      const int64_t count = count_of(call.inputs[0]);
      for (int64_t i = 0; i < count; ++i) {
        const T step = g[i] * lr;
        const T velocity = m[i] * keep - step;
        new_w[i] = decay(w[i], lr) + (nesterov ? velocity * keep - step : velocity);
        new_m[i] = velocity;
      }
    });
  });
}

template <bool kAmsgrad>
std::unique_ptr<Kernel> make_adam(const Problem& problem) {
  const graph::Attributes& attributes = problem.attributes;
  const double beta_1 = attributes.get_double("beta_1");
  const double beta_2 = attributes.get_double("beta_2");
  const double epsilon = attributes.get_double("epsilon");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=, decay = decay_of<T>(attributes)](const KernelCall& call) {
      const T* w = data_of<T>(call.inputs[0]);
      const T* g = data_of<T>(call.inputs[1]);
      const T* m = data_of<T>(call.inputs[2]);
      const T* v = data_of<T>(call.inputs[3]);
      const T* v_hat = kAmsgrad ? data_of<T>(call.inputs[4]) : nullptr;
      const T lr = *data_of<T>(call.inputs[kAmsgrad ? 5 : 4]);
      const T t = static_cast<T>(*data_of<int64_t>(call.inputs[kAmsgrad ? 6 : 5]) + 1);
      const T power_1 = std::pow(static_cast<T>(beta_1), t);
      const T power_2 = std::pow(static_cast<T>(beta_2), t);
      const T alpha = lr * std::sqrt(T(1) - power_2) / (T(1) - power_1);
      const T take_1 = static_cast<T>(1.0 - beta_1);
      const T take_2 = static_cast<T>(1.0 - beta_2);
      const T eps = static_cast<T>(epsilon);
      T* new_w = data_of<T>(call.outputs[0]);
      T* new_m = data_of<T>(call.outputs[1]);
      T* new_v = data_of<T>(call.outputs[2]);
      const int64_t count = count_of(call.inputs[0]);
      for (int64_t i = 0; i < count; ++i) {
        const T first = m[i] + (g[i] - m[i]) * take_1;
        T second = v[i] + (g[i] * g[i] - v[i]) * take_2;
        const T old = decay(w[i], lr);
        new_m[i] = first;
        new_v[i] = second;
        if constexpr (kAmsgrad) {
          if (v_hat[i] > second) second = v_hat[i];
          data_of<T>(call.outputs[3])[i] = second;
        }
        new_w[i] = old - first * alpha / (std::sqrt(second) + eps);
      }
    });
  });
}

template <bool kCentered, bool kMomentum>
std::unique_ptr<Kernel> make_rmsprop(const Problem& problem) {
  const graph::Attributes& attributes = problem.attributes;
  const double rho_value = attributes.get_double("rho");
  const double epsilon = attributes.get_double("epsilon");
  const double momentum = kMomentum ? attributes.get_double("momentum") : 0.0;
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=, decay = decay_of<T>(attributes)](const KernelCall& call) {
      constexpr size_t kMean = 3;
      constexpr size_t kVelocity = kCentered ? 4 : 3;
      constexpr size_t kRate = 3 + (kCentered ? 1 : 0) + (kMomentum ? 1 : 0);
      const T* w = data_of<T>(call.inputs[0]);
      const T* g = data_of<T>(call.inputs[1]);
      const T* v = data_of<T>(call.inputs[2]);
      const T lr = *data_of<T>(call.inputs[kRate]);
      const T* squares =
          call.inputs.size() > kRate + 1 ? data_of<T>(call.inputs[kRate + 1]) : nullptr;
      const T rho = static_cast<T>(rho_value);
      const T take = static_cast<T>(1.0 - rho_value);
      T* new_w = data_of<T>(call.outputs[0]);
      T* new_v = data_of<T>(call.outputs[1]);
      const int64_t count = count_of(call.inputs[0]);
      for (int64_t i = 0; i < count; ++i) {
        const T gradient = g[i];
        const T square = squares == nullptr ? gradient * gradient : squares[i];
        const T second = rho * v[i] + take * square;
        T variance = second;
        if constexpr (kCentered) {
          const T mean = rho * data_of<T>(call.inputs[kMean])[i] + take * gradient;
          data_of<T>(call.outputs[kMean - 1])[i] = mean;
          variance = second - mean * mean;
        }
        T step = lr * gradient / std::sqrt(variance + static_cast<T>(epsilon));
        if constexpr (kMomentum) {
          step += static_cast<T>(momentum) * data_of<T>(call.inputs[kVelocity])[i];
          data_of<T>(call.outputs[kVelocity - 1])[i] = step;
        }
        new_v[i] = second;
        new_w[i] = decay(w[i], lr) - step;
      }
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"adam", make_adam<false>},
    {"adam_amsgrad", make_adam<true>},
    {"rmsprop", make_rmsprop<false, false>},
    {"rmsprop_centered", make_rmsprop<true, false>},
    {"rmsprop_centered_momentum", make_rmsprop<true, true>},
    {"rmsprop_momentum", make_rmsprop<false, true>},
    {"sgd", make_sgd},
    {"sgd_momentum", make_sgd_momentum},
};

}  // namespace

std::span<const KernelEntry> optimizer_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
