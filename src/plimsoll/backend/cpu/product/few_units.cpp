// dense with one unit: dot products, not a matrix product, and bound by memory. With a few, no more
// than a vector has lanes: matrix products of which the vendor's kernels would compute mostly
// zeros.
//
// A dot product is summed over stretches of 8192 elements, whose sums are added in order, so that
// threads may share out stretches (few rows, each long) as well as rows.

#include <cstring>

#include "backend/cpu/families.h"
#include "backend/cpu/product/column_sums.h"
#include "backend/cpu/product/dense_shape.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/product/few_units_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kStretch = 8192;
constexpr int64_t kGrain = 1024;

CpuKernel make_forward(const DenseShape& d, const CpuOptions& options) {
  const auto dot = PLIMSOLL_PICK(options.isa, dot_stretch);
  const int64_t stretches = (d.inner + kStretch - 1) / kStretch;
  const int parts = parts_for(d.rows * d.inner * 4, options.parts);
  return kernel_of(
      [=](const KernelCall& call) {
        const float* x = input_floats(call, 0);
        const float* w = input_floats(call, 1);
        auto* sums = reinterpret_cast<float*>(call.scratch);
        for_each_range(d.rows * stretches, 1, parts, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t at = i % stretches * kStretch;
            sums[i] =
                dot(x + i / stretches * d.inner + at, w + at, std::min(kStretch, d.inner - at));
          }
        });
        float* y = output_floats(call, 0);
        for (int64_t row = 0; row < d.rows; ++row) {
          float sum = 0.0f;
          for (int64_t i = 0; i < stretches; ++i) sum += sums[row * stretches + i];
          if (d.bias) sum += *input_floats(call, 2);
          y[row] = d.relu && sum < 0.0f ? 0.0f : sum;
        }
      },
      Bytes(d.rows * stretches * 4));
}

CpuKernel make_grad_input(const DenseShape& d, const CpuOptions& options) {
  const auto scale = PLIMSOLL_PICK(options.isa, scale_stretch);
  const int parts = parts_for(d.rows * d.inner * 8, options.parts);
  return kernel_of([=](const KernelCall& call) {
    const float* dy = input_floats(call, 0);
    const float* w = input_floats(call, 1);
    float* dx = output_floats(call, 0);
    // Shares of the width, so that a thread's share of w stays in its cache over the rows.
    for_each_range(d.inner, kGrain, parts, [&](int64_t begin, int64_t end) {
      for (int64_t row = 0; row < d.rows; ++row) {
        scale(w + begin, dy[row], dx + row * d.inner + begin, end - begin);
      }
    });
  });
}

CpuKernel make_grad_kernel(const DenseShape& d, const CpuOptions& options) {
  const auto sums = PLIMSOLL_PICK(options.isa, weighted_column_sums);
  const int parts = parts_for(d.rows * d.inner * 4, options.parts);
  return kernel_of([=](const KernelCall& call) {
    const float* x = input_floats(call, 0);
    const float* dy = input_floats(call, 1);
    if (call.outputs[0].data != nullptr) {
      for_each_range(d.inner, kGrain, parts, [&](int64_t begin, int64_t end) {
        sums(x, dy, d.rows, d.inner, begin, end, output_floats(call, 0), !call.first);
      });
    }
    if (!d.bias || call.outputs[1].data == nullptr) return;
    float total = 0.0f;
    for (int64_t row = 0; row < d.rows; ++row) total += dy[row];
    float* bias = output_floats(call, 1);
    *bias = call.first ? total : *bias + total;
  });
}

// --- few units

// Below this many products one thread is as fast as several.
constexpr int64_t kProductsWorthATeam = 1 << 17;
constexpr int64_t kFewColumns = 64;  // shares of columns begin at a multiple

int few_parts(const DenseShape& d, const CpuOptions& options) {
  return d.rows * d.inner * d.units < kProductsWorthATeam ? 1 : options.parts;
}

CpuKernel make_few_forward(const DenseShape& d, const CpuOptions& options) {
  return kernel_of([d, loop = PLIMSOLL_PICK(options.isa, few_units_forward),
                    parts = few_parts(d, options)](const KernelCall& call) {
    for_each_range(d.rows, 1, parts, [&](int64_t begin, int64_t end) {
      loop(input_floats(call, 0) + begin * d.inner, end - begin, d.inner, input_floats(call, 1),
           d.bias ? input_floats(call, 2) : nullptr, d.relu, d.units,
           output_floats(call, 0) + begin * d.units);
    });
  });
}

CpuKernel make_few_grad_input(const DenseShape& d, const CpuOptions& options) {
  return kernel_of([d, loop = PLIMSOLL_PICK(options.isa, few_units_grad_input),
                    parts = few_parts(d, options)](const KernelCall& call) {
    for_each_range(d.inner, kFewColumns, parts, [&](int64_t begin, int64_t end) {
      loop(input_floats(call, 0), d.rows, input_floats(call, 1), d.units, d.inner, begin, end,
           output_floats(call, 0));
    });
  });
}

CpuKernel make_few_grad_kernel(const DenseShape& d, const CpuOptions& options) {
  return kernel_of([d, loop = PLIMSOLL_PICK(options.isa, few_units_grad_kernel),
                    parts = few_parts(d, options),
                    bias = ColumnSums(d.rows, d.units, options.isa)](const KernelCall& call) {
    if (call.outputs[0].data != nullptr) {
      for_each_range(d.inner, kFewColumns, parts, [&](int64_t begin, int64_t end) {
        loop(input_floats(call, 0), input_floats(call, 1), d.rows, d.inner, d.units, begin, end,
             output_floats(call, 0), !call.first);
      });
    }
    if (!d.bias || call.outputs[1].data == nullptr) return;
    bias.run(input_floats(call, 1), output_floats(call, 1), !call.first);
  });
}

}  // namespace

int64_t most_units(Isa isa) { return lanes_of(isa); }

CpuKernel make_few_units(const NodeFacts& facts, const CpuOptions& options) {
  const auto shape = read_dense_shape(facts);
  if (!shape || shape->bf16 || shape->all_units > most_units(options.isa)) return {};
  const DenseShape& d = *shape;
  switch (d.kind) {
    case DenseKind::kForward:
      return d.units > 1 ? make_few_forward(d, options) : make_forward(d, options);
    case DenseKind::kGradInput:
      return d.units > 1 ? make_few_grad_input(d, options) : make_grad_input(d, options);
    case DenseKind::kGradKernel:
      break;
  }
  return d.units > 1 ? make_few_grad_kernel(d, options) : make_grad_kernel(d, options);
}

}  // namespace plimsoll::backend::cpu
