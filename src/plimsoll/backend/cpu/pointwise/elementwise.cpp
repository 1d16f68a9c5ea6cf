// Kernels that go element by element over flat arrays; activations are in activations.cpp.

#include <array>

#include "backend/cpu/families.h"
#include "backend/cpu/simd/bfloat16.h"
#include "ops/dropout_mask.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/pointwise/elementwise_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

// Parts of flat arrays begin at multiples of this.
constexpr int64_t kGrain = 1024;

template <typename T>
using BinaryLoop = void (*)(const T* a, const T* b, T* y, int64_t count);

template <typename T>
CpuKernel make_binary(const NodeFacts& facts, const CpuOptions& options, BinaryLoop<T> same,
                      BinaryLoop<T> scalar) {
  const bool right_scalar = facts.inputs[1] != facts.inputs[0];
  const BinaryLoop<T> loop = right_scalar ? scalar : same;
  const int64_t count = facts.output_elements(0);
  const int parts = parts_for(count * (right_scalar ? 8 : 12), options.parts);
  const int64_t right_step = right_scalar ? 0 : 1;
  return kernel_of([=](const KernelCall& call) {
    for_each_range(count, kGrain, parts, [&](int64_t begin, int64_t end) {
      loop(input_as<T>(call, 0) + begin, input_as<T>(call, 1) + right_step * begin,
           output_as<T>(call, 0) + begin, end - begin);
    });
  });
}

template <typename T>
CpuKernel make_scale_shift(const NodeFacts& facts, const CpuOptions& options) {
  const auto scale = static_cast<float>(facts.attributes.get_double("scale"));
  const auto offset = static_cast<float>(facts.attributes.get_double("offset"));
  const auto loop = PLIMSOLL_PICK(options.isa, scale_shift_values<T>);
  const int64_t count = facts.output_elements(0);
  const int parts = parts_for(count * 8, options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(count, kGrain, parts, [&](int64_t begin, int64_t end) {
      loop(input_as<T>(call, 0) + begin, scale, offset, output_as<T>(call, 0) + begin, end - begin);
    });
  });
}

template <typename T>
CpuKernel make_bias_add(const NodeFacts& facts, const CpuOptions& options) {
  const auto loop = PLIMSOLL_PICK(options.isa, add_bias_rows<T>);
  const int64_t width = facts.input_elements(1);
  const int64_t rows = facts.output_elements(0) / width;
  const int parts = parts_for(rows * width * 8, options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(rows, 1, parts, [&](int64_t begin, int64_t end) {
      loop(input_as<T>(call, 0), input_floats(call, 1), width, output_as<T>(call, 0), begin, end);
    });
  });
}

template <typename T>
CpuKernel make_dropout(const NodeFacts& facts, const CpuOptions& options) {
  const double rate = facts.attributes.get_double("rate");
  const int64_t site = facts.attributes.get_int("site");
  const auto loop = PLIMSOLL_PICK(options.isa, dropout_values<T>);
  const int axis = graph::find_axis(facts.axes, graph::kBatchAxis);
  const int64_t per_sample = facts.inputs[0].shape.elements_per_sample();
  const int64_t count = facts.output_elements(0);
  // A draw costs about as much as moving 32 bytes.
  const int parts = parts_for(count * 40, options.parts);
  return kernel_of([=](const KernelCall& call) {
    const Philox stream = ops::dropout_stream(call.step->seed, call.step->step, site);
    const int64_t first = call.first_sample(axis) * per_sample;
    const auto scale = static_cast<float>(1.0 / (1.0 - rate));
    for_each_range(count, kGrain, parts, [&](int64_t begin, int64_t end) {
      std::array<float, kGrain> draws;
      for (int64_t at = begin; at < end; at += kGrain) {
        const int64_t part = std::min(kGrain, end - at);
        stream.fill_uniform(static_cast<uint64_t>(first + at),
                            std::span(draws).first(static_cast<size_t>(part)));
        loop(input_as<T>(call, 0) + at, draws.data(), static_cast<float>(rate), scale,
             output_as<T>(call, 0) + at, part);
      }
    });
  });
}

CpuKernel make_rounding(const NodeFacts& facts, const CpuOptions& options) {
  const int64_t count = facts.output_elements(0);
  const int parts = parts_for(count * 6, options.parts);
  return kernel_of([=, isa = options.isa](const KernelCall& call) {
    auto* to = reinterpret_cast<uint16_t*>(call.outputs[0].data);
    for_each_range(count, kGrain, parts, [&](int64_t begin, int64_t end) {
      round_numbers(input_floats(call, 0) + begin, to + begin, end - begin, isa);
    });
  });
}

CpuKernel make_cast(const NodeFacts& facts, const CpuOptions& options) {
  const DType from = facts.inputs[0].dtype;
  if (from == DType::kFloat32 && facts.outputs[0].dtype == DType::kBFloat16) {
    return make_rounding(facts, options);
  }
  if (facts.outputs[0].dtype != DType::kFloat32) return {};
  void (*loop)(const void*, float*, int64_t) = nullptr;
  if (from == DType::kFloat64) loop = PLIMSOLL_PICK(options.isa, floats_of_double);
  if (from == DType::kBFloat16) loop = PLIMSOLL_PICK(options.isa, floats_of_bfloat16);
  if (from == DType::kUInt8) loop = PLIMSOLL_PICK(options.isa, floats_of_uint8);
  if (from == DType::kInt32) loop = PLIMSOLL_PICK(options.isa, floats_of_int32);
  if (from == DType::kInt64) loop = PLIMSOLL_PICK(options.isa, floats_of_int64);
  if (loop == nullptr) return {};
  const int64_t bytes = element_bytes(from).count();
  const int64_t count = facts.output_elements(0);
  const int parts = parts_for(count * (bytes + 4), options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(count, kGrain, parts, [&](int64_t begin, int64_t end) {
      loop(call.inputs[0].data + begin * bytes, output_floats(call, 0) + begin, end - begin);
    });
  });
}

template <typename T>
CpuKernel make_add(const NodeFacts& facts, const CpuOptions& options) {
  return make_binary<T>(facts, options, PLIMSOLL_PICK(options.isa, add_values<T>),
                        PLIMSOLL_PICK(options.isa, add_scalar<T>));
}

template <typename T>
CpuKernel make_subtract(const NodeFacts& facts, const CpuOptions& options) {
  return make_binary<T>(facts, options, PLIMSOLL_PICK(options.isa, subtract_values<T>),
                        PLIMSOLL_PICK(options.isa, subtract_scalar<T>));
}

template <typename T>
CpuKernel make_multiply(const NodeFacts& facts, const CpuOptions& options) {
  return make_binary<T>(facts, options, PLIMSOLL_PICK(options.isa, multiply_values<T>),
                        PLIMSOLL_PICK(options.isa, multiply_scalar<T>));
}

template <typename T>
constexpr CpuEntry kEntries[] = {
    {"add", make_add<T>},
    {"accumulate", make_add<T>},
    {"subtract", make_subtract<T>},
    {"multiply", make_multiply<T>},
    {"scale_shift", make_scale_shift<T>},
    {"bias_add", make_bias_add<T>},
    {"dropout", make_dropout<T>},
    {"dropout_grad", make_dropout<T>},
};
constexpr CpuEntry kConversions[] = {{"cast", make_cast}};

}  // namespace

CpuKernel make_elementwise(const NodeFacts& facts, const CpuOptions& options) {
  if (find_entry(kConversions, facts.op()) != nullptr) {
    return make_listed(kConversions, facts, options);
  }
  if (facts.all_float32()) return make_listed(kEntries<float>, facts, options);
  if (facts.leads_with_bfloat16()) return make_listed(kEntries<uint16_t>, facts, options);
  return {};
}

}  // namespace plimsoll::backend::cpu
