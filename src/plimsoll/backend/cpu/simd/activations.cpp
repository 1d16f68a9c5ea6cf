// Activations and their gradients, and ReLU's bits.

#include "backend/cpu/simd/activations.h"

#include <algorithm>

#include "backend/cpu/families.h"
#include "ops/activation_functions.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/simd/activations_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

// Parts of flat arrays begin at multiples of this.
constexpr int64_t kGrain = 1024;

template <typename T>
struct ActivationLoops {
  ActivationValues<T> values = nullptr;
  ActivationSlopes<T> slopes = nullptr;
};

#define PLIMSOLL_LOOPS(name) \
  { PLIMSOLL_PICK(isa, name##_values<T>), PLIMSOLL_PICK(isa, name##_slopes<T>) }

// The activations that have vectors; none: element by element.
template <typename T>
ActivationLoops<T> loops_of(ops::ActivationKind kind, Isa isa) {
  using ops::ActivationKind;
  switch (kind) {
    case ActivationKind::kRelu:
      return PLIMSOLL_LOOPS(relu);
    case ActivationKind::kGeneralRelu:
      return PLIMSOLL_LOOPS(general_relu);
    case ActivationKind::kRelu6:
      return PLIMSOLL_LOOPS(relu6);
    case ActivationKind::kLeakyRelu:
      return PLIMSOLL_LOOPS(leaky_relu);
    case ActivationKind::kSigmoid:
      return PLIMSOLL_LOOPS(sigmoid);
    case ActivationKind::kTanh:
      return PLIMSOLL_LOOPS(tanh);
    case ActivationKind::kElu:
      return PLIMSOLL_LOOPS(elu);
    case ActivationKind::kSelu:
      return PLIMSOLL_LOOPS(selu);
    case ActivationKind::kSoftsign:
      return PLIMSOLL_LOOPS(softsign);
    case ActivationKind::kGelu:
      return PLIMSOLL_LOOPS(gelu);
    case ActivationKind::kGeluTanh:
      return PLIMSOLL_LOOPS(gelu_tanh);
    case ActivationKind::kSilu:
      return PLIMSOLL_LOOPS(silu);
    case ActivationKind::kHardSigmoid:
      return PLIMSOLL_LOOPS(hard_sigmoid);
    case ActivationKind::kHardSilu:
      return PLIMSOLL_LOOPS(hard_silu);
    case ActivationKind::kHardTanh:
      return PLIMSOLL_LOOPS(hard_tanh);
    default:
      return {};
  }
}
#undef PLIMSOLL_LOOPS

ActivationNumbers numbers_of(const ops::Activation& activation) {
  return {.alpha = static_cast<float>(activation.alpha),
          .slope = static_cast<float>(activation.negative_slope),
          .top = static_cast<float>(activation.max_value),
          .threshold = static_cast<float>(activation.threshold),
          // relu6, which Keras uses for a maximum of 6 without threshold, does not pass at 6.
          .passes_top = activation.max_value != 6.0 || activation.threshold != 0.0};
}

template <typename T>
CpuKernel make_activation(const NodeFacts& facts, const CpuOptions& options) {
  const ops::Activation activation = ops::read_activation(facts.attributes);
  const int64_t count = facts.output_elements(0);
  if (const auto loop = loops_of<T>(activation.kind, options.isa).values; loop != nullptr) {
    const ActivationNumbers numbers = numbers_of(activation);
    const int parts = parts_for(count * 8, options.parts);
    return kernel_of([=](const KernelCall& call) {
      for_each_range(count, kGrain, parts, [&](int64_t begin, int64_t end) {
        loop(numbers, input_as<T>(call, 0) + begin, output_as<T>(call, 0) + begin, end - begin);
      });
    });
  }
  // The others cost tens of cycles a number.
  if (!facts.all_float32()) return {};
  const int parts = parts_for(count * 64, options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(count, kGrain, parts, [&](int64_t begin, int64_t end) {
      const float* x = input_floats(call, 0);
      float* y = output_floats(call, 0);
      for (int64_t i = begin; i < end; ++i) y[i] = ops::activate(activation, x[i]);
    });
  });
}

// Samples of a block, flat where a sample's bits fill whole bytes.
struct BitRows {
  int64_t rows = 1;
  int64_t elements = 0;  // of a row
  int64_t bytes = 0;
};
BitRows bit_rows(int64_t samples, int64_t per_sample) {
  if (per_sample % 8 == 0) return {1, samples * per_sample, samples * per_sample / 8};
  return {samples, per_sample, (per_sample + 7) / 8};
}

template <typename T>
CpuKernel make_relu_grad_from_bits(const NodeFacts& facts, const CpuOptions& options) {
  const auto loop = PLIMSOLL_PICK(options.isa, relu_grad_bits<T>);
  const BitRows bits = bit_rows(facts.samples(), facts.inputs[1].shape.elements_per_sample());
  const int parts = parts_for(bits.rows * bits.elements * 8, options.parts);
  return kernel_of([=](const KernelCall& call) {
    const auto* from = reinterpret_cast<const uint8_t*>(call.inputs[1].data);
    for (int64_t row = 0; row < bits.rows; ++row) {
      for_each_range(bits.elements, kGrain, parts, [&](int64_t begin, int64_t end) {
        loop(input_as<T>(call, 0) + row * bits.elements + begin,
             from + row * bits.bytes + begin / 8,
             output_as<T>(call, 0) + row * bits.elements + begin, end - begin);
      });
    }
  });
}

template <typename T>
CpuKernel make_activation_grad(const NodeFacts& facts, const CpuOptions& options) {
  const ops::Activation activation = ops::read_activation(facts.attributes);
  const int64_t count = facts.output_elements(0);
  if (!facts.forms[1].empty()) return make_relu_grad_from_bits<T>(facts, options);
  if (const auto loop = loops_of<T>(activation.kind, options.isa).slopes; loop != nullptr) {
    const ActivationNumbers numbers = numbers_of(activation);
    const int parts = parts_for(count * 12, options.parts);
    return kernel_of([=](const KernelCall& call) {
      for_each_range(count, kGrain, parts, [&](int64_t begin, int64_t end) {
        loop(numbers, input_as<T>(call, 0) + begin, input_as<T>(call, 1) + begin,
             output_as<T>(call, 0) + begin, end - begin);
      });
    });
  }
  if (!facts.all_float32()) return {};
  const int parts = parts_for(count * 64, options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(count, kGrain, parts, [&](int64_t begin, int64_t end) {
      const float* dy = input_floats(call, 0);
      const float* reference = input_floats(call, 1);
      float* dx = output_floats(call, 0);
      for (int64_t i = begin; i < end; ++i) {
        dx[i] = dy[i] * ops::activation_slope(activation, reference[i]);
      }
    });
  });
}

template <typename T>
constexpr CpuEntry kEntries[] = {
    {"activation", make_activation<T>},
    {"activation_grad", make_activation_grad<T>},
};

template <typename T>
std::unique_ptr<Kernel> make_positive_bits_of(const EncoderRequest& request,
                                              const CpuOptions& options) {
  const Shape& shape = request.type.shape;
  const auto loop = PLIMSOLL_PICK(options.isa, encode_positive_bits<T>);
  const int64_t samples = shape.has_batch() ? request.rows / shape[0].count : 1;
  const BitRows bits = bit_rows(samples, shape.elements_per_sample());
  const int parts = parts_for(bits.rows * bits.elements * 4, options.parts);
  return kernel_of([=](const KernelCall& call) {
           auto* to = reinterpret_cast<uint8_t*>(call.outputs[0].data);
           for (int64_t row = 0; row < bits.rows; ++row) {
             for_each_range(bits.elements, kGrain, parts, [&](int64_t begin, int64_t end) {
               loop(input_as<T>(call, 0) + row * bits.elements + begin,
                    to + row * bits.bytes + begin / 8, end - begin);
             });
           }
         })
      .kernel;
}

std::unique_ptr<Kernel> make_positive_bits(const EncoderRequest& request,
                                           const CpuOptions& options) {
  const DType dtype = request.type.dtype;
  if (dtype == DType::kFloat32) return make_positive_bits_of<float>(request, options);
  if (dtype == DType::kBFloat16) return make_positive_bits_of<uint16_t>(request, options);
  return nullptr;
}

struct EncoderEntry {
  std::string_view form;
  std::unique_ptr<Kernel> (*make)(const EncoderRequest& request, const CpuOptions& options);
};
constexpr EncoderEntry kEncoders[] = {{"positive_bits", make_positive_bits}};

}  // namespace

CpuKernel make_activations(const NodeFacts& facts, const CpuOptions& options) {
  if (facts.all_float32()) return make_listed(kEntries<float>, facts, options);
  if (facts.leads_with_bfloat16()) return make_listed(kEntries<uint16_t>, facts, options);
  return {};
}

std::unique_ptr<Kernel> make_cpu_encoder(const EncoderRequest& request, const CpuOptions& options) {
  const auto* entry = std::ranges::find(kEncoders, request.form, &EncoderEntry::form);
  return entry == std::end(kEncoders) ? nullptr : entry->make(request, options);
}

}  // namespace plimsoll::backend::cpu
