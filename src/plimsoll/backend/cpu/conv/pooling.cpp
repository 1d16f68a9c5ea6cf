#include "backend/cpu/conv/pooling.h"

#include <cstring>

#include "backend/cpu/conv/volume_pooling.h"
#include "backend/cpu/families.h"
#include "ops/image/pool.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/conv/pooling_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

struct Pooling {
  PoolShape shape;
  int64_t images = 1;
  int parts = 1;
};

// Reads a pooling (x first) or its gradient (input_shape).
Pooling read_pooling(const NodeFacts& facts, bool gradient, int most_parts) {
  int64_t height, width, channels;
  if (gradient) {
    const std::vector<int64_t>& input = facts.attributes.get_ints("input_shape");
    height = input[0], width = input[1], channels = input[2];
  } else {
    const Shape& input = facts.inputs[0].shape;
    height = input[1].count, width = input[2].count, channels = input[3].count;
  }
  const ops::Windows window = ops::pool2d_window(facts.attributes, height, width);
  Pooling p{{window[0], window[1], channels}, 1, 1};
  p.images = facts.samples() * facts.inputs[0].shape[0].count;
  p.parts = parts_for(p.images * p.shape.input_elements() * 4, most_parts);
  return p;
}

template <typename T>
CpuKernel make_max_pool(const NodeFacts& facts, const CpuOptions& options) {
  const Pooling p = read_pooling(facts, false, options.parts);
  const bool small = facts.outputs[1].dtype == DType::kUInt8;
  const auto loop = small ? PLIMSOLL_PICK(options.isa, max_rows_small<T>)
                          : PLIMSOLL_PICK(options.isa, max_rows_wide<T>);
  return kernel_of([p, loop](const KernelCall& call) {
    for_each_range(p.images * p.shape.rows.output, 1, p.parts, [&](int64_t begin, int64_t end) {
      loop(p.shape, input_as<T>(call, 0), output_as<T>(call, 0), call.outputs[1].data, begin, end);
    });
  });
}

// Input rows and columns after the last window.
template <typename T>
void clear_uncovered(const PoolShape& shape, T* dx, int64_t image) {
  const int64_t covered_rows = shape.rows.output * shape.rows.size;
  const int64_t covered = shape.columns.output * shape.columns.size * shape.channels;
  const int64_t row_elements = shape.columns.input * shape.channels;
  T* to = dx + image * shape.input_elements();
  for (int64_t row = 0; row < shape.rows.input; ++row, to += row_elements) {
    const int64_t from = row < covered_rows ? covered : 0;
    std::memset(to + from, 0, static_cast<size_t>(row_elements - from) * sizeof(T));
  }
}

template <typename T>
CpuKernel make_max_pool_grad(const NodeFacts& facts, const CpuOptions& options) {
  const Pooling p = read_pooling(facts, true, options.parts);
  const bool small = facts.inputs[1].dtype == DType::kUInt8;
  const auto loop = small ? PLIMSOLL_PICK(options.isa, max_grad_rows_small<T>)
                          : PLIMSOLL_PICK(options.isa, max_grad_rows_wide<T>);
  return kernel_of([p, loop](const KernelCall& call) {
    T* dx = output_as<T>(call, 0);
    const bool tiles = p.shape.tiles();
    if (tiles) {
      for (int64_t image = 0; image < p.images; ++image) clear_uncovered(p.shape, dx, image);
    }
    const int64_t rows = p.images * (tiles ? p.shape.rows.output : p.shape.rows.input);
    for_each_range(rows, 1, p.parts, [&](int64_t begin, int64_t end) {
      loop(p.shape, input_as<T>(call, 0), call.inputs[1].data, dx, begin, end);
    });
  });
}

template <typename T>
CpuKernel make_avg_pool(const NodeFacts& facts, const CpuOptions& options) {
  const Pooling p = read_pooling(facts, false, options.parts);
  const auto loop = PLIMSOLL_PICK(options.isa, mean_rows<T>);
  return kernel_of([p, loop](const KernelCall& call) {
    for_each_range(p.images * p.shape.rows.output, 1, p.parts, [&](int64_t begin, int64_t end) {
      loop(p.shape, input_as<T>(call, 0), output_as<T>(call, 0), begin, end);
    });
  });
}

template <typename T>
CpuKernel make_avg_pool_grad(const NodeFacts& facts, const CpuOptions& options) {
  const Pooling p = read_pooling(facts, true, options.parts);
  const auto loop = PLIMSOLL_PICK(options.isa, mean_grad_rows<T>);
  return kernel_of([p, loop](const KernelCall& call) {
    for_each_range(p.images * p.shape.rows.input, 1, p.parts, [&](int64_t begin, int64_t end) {
      loop(p.shape, input_as<T>(call, 0), output_as<T>(call, 0), begin, end);
    });
  });
}

template <typename T>
constexpr CpuEntry kEntries[] = {
    {"max_pool2d", make_max_pool<T>},
    {"max_pool2d_grad", make_max_pool_grad<T>},
    {"avg_pool2d", make_avg_pool<T>},
    {"avg_pool2d_grad", make_avg_pool_grad<T>},
};

}  // namespace

CpuKernel make_pooling(const NodeFacts& facts, const CpuOptions& options) {
  if (CpuKernel made = make_volume_pooling(facts, options); made.kernel != nullptr) return made;
  if (find_entry(kEntries<float>, facts.op()) == nullptr) return {};
  const std::vector<int64_t>& size = facts.attributes.get_ints("pool_size");
  if (size[0] * size[1] > kMostTaps) return {};
  const DType values = facts.inputs[0].dtype;
  if (values == DType::kFloat32) return make_listed(kEntries<float>, facts, options);
  if (values == DType::kBFloat16) return make_listed(kEntries<uint16_t>, facts, options);
  return {};
}

}  // namespace plimsoll::backend::cpu
