// Activations, their gradients, and the one-bit saved form of relu.

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "backend/reference/reference.h"
#include "base/bfloat16.h"
#include "ops/activation_functions.h"

namespace plimsoll::backend {
namespace reference {
namespace {

using ops::Activation;
using ops::ActivationKind;

std::unique_ptr<Kernel> make_activation(const Problem& problem) {
  const Activation activation = ops::read_activation(problem.attributes);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([activation](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      for_each_run<2>(x.dims, {x.strides, y.strides}, [&](const auto& at, int64_t, int64_t count) {
        const T* in = data_of<T>(x) + at[0];
        T* out = data_of<T>(y) + at[1];
        for (int64_t i = 0; i < count; ++i) out[i] = activate(activation, in[i]);
      });
    });
  });
}

// dy where the bit of its element is set, else 0.
template <typename T>
std::unique_ptr<Kernel> relu_grad_from_bits(const Problem& problem) {
  const int64_t per_sample = problem.inputs[1].shape.elements_per_sample();
  const int64_t row = row_bytes(DType::kBits, problem.inputs[1].shape).count();
  return kernel_of([per_sample, row](const KernelCall& call) {
    const Operand& dy = call.inputs[0];
    const Operand& dx = call.outputs[0];
    const auto* bits = data_of<const uint8_t>(call.inputs[1]);
    for_each_run<2>(dy.dims, {dy.strides, dx.strides},
                    [&](const auto& at, int64_t position, int64_t count) {
                      const T* in = data_of<T>(dy) + at[0];
                      T* out = data_of<T>(dx) + at[1];
                      for (int64_t i = 0; i < count; ++i) {
                        const int64_t sample = (position + i) / per_sample;
                        const int64_t element = (position + i) % per_sample;
                        const int byte = bits[sample * row + element / 8];
                        out[i] = (byte >> (element % 8)) & 1 ? in[i] : T(0);
                      }
                    });
  });
}

std::unique_ptr<Kernel> make_activation_grad(const Problem& problem) {
  const Activation activation = ops::read_activation(problem.attributes);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    if (problem.forms.size() > 1 && !problem.forms[1].empty()) {
      return relu_grad_from_bits<T>(problem);
    }
    return std::unique_ptr<Kernel>(kernel_of([activation](const KernelCall& call) {
      const Operand& dy = call.inputs[0];
      const Operand& r = call.inputs[1];
      const Operand& dx = call.outputs[0];
      for_each_run<3>(dy.dims, {dy.strides, r.strides, dx.strides},
                      [&](const auto& at, int64_t, int64_t count) {
                        const T* in = data_of<T>(dy) + at[0];
                        const T* reference = data_of<T>(r) + at[1];
                        T* out = data_of<T>(dx) + at[2];
                        if (activation.kind == ActivationKind::kRelu) {
                          for (int64_t i = 0; i < count; ++i) {
                            out[i] = reference[i] > T(0) ? in[i] : T(0);
                          }
                          return;
                        }
                        for (int64_t i = 0; i < count; ++i) {
                          out[i] = in[i] * activation_slope(activation, reference[i]);
                        }
                      });
    }));
  });
}

constexpr KernelEntry kEntries[] = {
    {"activation", make_activation},
    {"activation_grad", make_activation_grad},
};

std::unique_ptr<Kernel> make_positive_bits(const EncoderRequest& request) {
  const Shape& shape = request.type.shape;
  const int64_t per_sample = shape.elements_per_sample();
  const int64_t row = row_bytes(DType::kBits, shape).count();
  const int64_t samples = shape.has_batch() ? request.rows / shape[0].count : 1;
  const auto encode = [&]<typename T>(T, auto is_positive) {
    return kernel_of([per_sample, row, samples, is_positive](const KernelCall& call) {
      const T* x = data_of<T>(call.inputs[0]);
      auto* bits = data_of<uint8_t>(call.outputs[0]);
      for (int64_t sample = 0; sample < samples; ++sample) {
        for (int64_t byte = 0; byte < row; ++byte) {
          unsigned value = 0;
          for (int64_t bit = 0; bit < 8 && byte * 8 + bit < per_sample; ++bit) {
            const bool positive = is_positive(x[sample * per_sample + byte * 8 + bit]);
            value |= static_cast<unsigned>(positive) << bit;
          }
          bits[sample * row + byte] = static_cast<uint8_t>(value);
        }
      }
    });
  };
  if (request.type.dtype == DType::kBFloat16) {
    return encode(uint16_t(), [](uint16_t bits) { return float_of_bfloat16(bits) > 0.0f; });
  }
  return for_float(request.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    return encode(zero, [](T x) { return x > T(0); });
  });
}

struct EncoderEntry {
  std::string_view form;
  std::unique_ptr<Kernel> (*make)(const EncoderRequest& request);
};
constexpr EncoderEntry kEncoders[] = {{"positive_bits", make_positive_bits}};

}  // namespace

std::span<const KernelEntry> activation_kernels() { return kEntries; }

}  // namespace reference

std::unique_ptr<Kernel> make_reference_encoder(const EncoderRequest& request) {
  for (const reference::EncoderEntry& entry : reference::kEncoders) {
    if (entry.form == request.form) return entry.make(request);
  }
  throw Error(ErrorKind::kBackend, "reference: expected the name of a saved form, received \"" +
                                       request.form + "\". Keep the plain value.");
}

}  // namespace plimsoll::backend
