// Sums over the batch and over weights, and the gradients that spread them out again.

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

std::unique_ptr<Kernel> make_bias_grad(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& dy = call.inputs[0];
      const int64_t channels = row_length(dy);
      auto* sums = reinterpret_cast<double*>(call.scratch);
      std::fill(sums, sums + channels, 0.0);
      for_each_index<1>(row_dims(dy), {dy.strides}, [&](const auto& at, int64_t) {
        const T* in = data_of<T>(dy) + at[0];
        for (int64_t c = 0; c < channels; ++c) sums[c] += static_cast<double>(in[c]);
      });
      T* db = data_of<T>(call.outputs[0]);
      for (int64_t c = 0; c < channels; ++c) fold(db[c], sums[c], call.first);
    });
  });
}

Bytes channel_scratch(const Problem& problem) {
  return Bytes(problem.outputs[0].shape.elements_per_sample() * int64_t{sizeof(double)});
}

// Strides with which weights follow a value: its own, or those of one number for each position of
// dimension 0 spread over the rest.
class WeightStrides {
 public:
  WeightStrides(const Operand& weights, size_t rank) {
    if (weights.dims.size() == rank) {
      view_ = weights.strides;
      return;
    }
    strides_[0] = weights.strides[0];
    view_ = Strides(strides_.data(), rank);
  }
  WeightStrides(const WeightStrides&) = delete;
  WeightStrides& operator=(const WeightStrides&) = delete;
  Strides get() const { return view_; }

 private:
  std::array<int64_t, kMaxRank> strides_{};
  Strides view_;
};

std::unique_ptr<Kernel> make_batch_sum(const Problem& problem) {
  const bool weighted = problem.inputs.size() > 1;
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([weighted](const KernelCall& call) {
      const Operand& v = call.inputs[0];
      double sum = 0;
      if (weighted) {
        const Operand& w = call.inputs[1];
        const WeightStrides strides(w, v.dims.size());
        for_each_index<2>(v.dims, {v.strides, strides.get()}, [&](const auto& at, int64_t) {
          sum += static_cast<double>(data_of<T>(v)[at[0]] * data_of<T>(w)[at[1]]);
        });
      } else {
        for_each_run<1>(v.dims, {v.strides}, [&](const auto& at, int64_t, int64_t count) {
          const T* in = data_of<T>(v) + at[0];
          for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(in[i]);
        });
      }
      fold(*data_of<T>(call.outputs[0]), sum, call.first);
    });
  });
}

std::unique_ptr<Kernel> make_batch_sum_grad(const Problem& problem) {
  const bool weighted = problem.inputs.size() > 1;
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([weighted](const KernelCall& call) {
      const T d = *data_of<T>(call.inputs[0]);
      const Operand& dv = call.outputs[0];
      if (weighted) {
        const Operand& w = call.inputs[1];
        const WeightStrides strides(w, dv.dims.size());
        for_each_index<2>(dv.dims, {dv.strides, strides.get()}, [&](const auto& at, int64_t) {
          data_of<T>(dv)[at[0]] = d * data_of<T>(w)[at[1]];
        });
      } else {
        for_each_run<1>(dv.dims, {dv.strides}, [&](const auto& at, int64_t, int64_t count) {
          std::fill_n(data_of<T>(dv) + at[0], count, d);
        });
      }
    });
  });
}

template <bool kSquares>
std::unique_ptr<Kernel> make_regularizer(const Problem& problem) {
  const double factor = problem.attributes.get_double("factor");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([factor](const KernelCall& call) {
      const T* w = data_of<T>(call.inputs[0]);
      double sum = 0;
      for (int64_t i = 0; i < count_of(call.inputs[0]); ++i) {
        const auto value = static_cast<double>(w[i]);
        sum += kSquares ? value * value : std::abs(value);
      }
      *data_of<T>(call.outputs[0]) = static_cast<T>(factor) * static_cast<T>(sum);
    });
  });
}

template <bool kSquares>
std::unique_ptr<Kernel> make_regularizer_grad(const Problem& problem) {
  const double factor = problem.attributes.get_double("factor");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([factor](const KernelCall& call) {
      const T* w = data_of<T>(call.inputs[0]);
      const T scale = *data_of<T>(call.inputs[1]) * static_cast<T>(factor);
      T* dw = data_of<T>(call.outputs[0]);
      for (int64_t i = 0; i < count_of(call.inputs[0]); ++i) {
        if (kSquares) {
          dw[i] = scale * (T(2) * w[i]);
        } else {
          dw[i] = w[i] > T(0) ? scale : (w[i] < T(0) ? -scale : T(0));
        }
      }
    });
  });
}

std::unique_ptr<Kernel> make_batch_max(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      T most = -std::numeric_limits<T>::infinity();
      for_each_run<1>(x.dims, {x.strides}, [&](const auto& at, int64_t, int64_t count) {
        const T* in = data_of<const T>(x) + at[0];
        for (int64_t i = 0; i < count; ++i) {
          if (!(in[i] <= most)) most = std::isnan(most) ? most : in[i];
        }
      });
      *data_of<T>(call.outputs[0]) = most;
    });
  });
}

std::unique_ptr<Kernel> make_batch_max_grad(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& x = call.inputs[1];
      const Operand& dx = call.outputs[0];
      const T most = *data_of<const T>(call.inputs[2]);
      int64_t equal = 0;
      for_each_run<1>(x.dims, {x.strides}, [&](const auto& at, int64_t, int64_t count) {
        const T* in = data_of<const T>(x) + at[0];
        equal += std::count(in, in + count, most);
      });
      const T part = equal == 0 ? T(0) : *data_of<const T>(call.inputs[0]) / static_cast<T>(equal);
      for_each_run<2>(x.dims, {x.strides, dx.strides}, [&](const auto& at, int64_t, int64_t count) {
        const T* in = data_of<const T>(x) + at[0];
        T* out = data_of<T>(dx) + at[1];
        for (int64_t i = 0; i < count; ++i) out[i] = in[i] == most ? part : T(0);
      });
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"batch_max", make_batch_max},
    {"batch_max_grad", make_batch_max_grad},
    {"batch_sum", make_batch_sum},
    {"batch_sum_grad", make_batch_sum_grad},
    {"bias_grad", make_bias_grad, channel_scratch},
    {"sum_abs", make_regularizer<false>},
    {"sum_abs_grad", make_regularizer_grad<false>},
    {"sum_squares", make_regularizer<true>},
    {"sum_squares_grad", make_regularizer_grad<true>},
};

}  // namespace

std::span<const KernelEntry> sum_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
