// What goes row by row: layer and RMS normalization, softmax, and softmax cross-entropy on class
// numbers, which may be cut along the classes. Threads share out rows, or columns where rows are
// summed up.

#include <algorithm>

#include "backend/cpu/families.h"
#include "backend/cpu/product/class_rows.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/pointwise/rows_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
// A number that goes through exp costs about as much as moving so many bytes.
constexpr int64_t kExponentialBytes = 24;
constexpr int64_t kColumnGrain = 16;

struct Rows {
  int64_t rows = 1;
  int64_t columns = 1;
};

// Rows of the last `dims` dimensions together.
Rows read_rows(const NodeFacts& facts, int64_t dims) {
  Rows r;
  const Shape& x = facts.inputs[0].shape;
  for (int64_t d = x.rank() - dims; d < x.rank(); ++d) r.columns *= x[static_cast<int>(d)].count;
  r.rows = facts.input_elements(0) / r.columns;
  return r;
}
Rows normalized_rows(const NodeFacts& facts) {
  return read_rows(facts, facts.attributes.get_int("dims"));
}

CpuKernel make_layer_norm(const NodeFacts& facts, const CpuOptions& options) {
  const Rows r = normalized_rows(facts);
  const bool scale = facts.attributes.get_bool("scale", true);
  const bool center = facts.attributes.get_bool("center", true);
  const auto epsilon = static_cast<float>(facts.attributes.get_double("epsilon"));
  const auto loop = PLIMSOLL_PICK(options.isa, layer_norm_rows);
  const int parts = parts_for(r.rows * r.columns * 4 * kFloat, options.parts);
  return kernel_of([=](const KernelCall& call) {
    const float* gamma = scale ? input_floats(call, 1) : nullptr;
    const float* beta = center ? input_floats(call, scale ? 2 : 1) : nullptr;
    for_each_range(r.rows, 1, parts, [&](int64_t begin, int64_t end) {
      loop(input_floats(call, 0), gamma, beta, epsilon, r.columns, output_floats(call, 0),
           output_floats(call, 1), begin, end);
    });
  });
}

CpuKernel make_layer_norm_grad(const NodeFacts& facts, const CpuOptions& options) {
  const Rows r = normalized_rows(facts);
  const bool scale = facts.attributes.get_bool("scale", true);
  const auto loop = PLIMSOLL_PICK(options.isa, layer_norm_grad_rows);
  const int parts = parts_for(r.rows * r.columns * 6 * kFloat, options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(r.rows, 1, parts, [&](int64_t begin, int64_t end) {
      loop(input_floats(call, 0), input_floats(call, 1), input_floats(call, 2),
           scale ? input_floats(call, 3) : nullptr, r.columns, output_floats(call, 0), begin, end);
    });
  });
}

CpuKernel make_layer_norm_sums(const NodeFacts& facts, const CpuOptions& options) {
  const Rows r = normalized_rows(facts);
  const auto loop = PLIMSOLL_PICK(options.isa, layer_norm_column_sums);
  const int parts = parts_for(r.rows * r.columns * 2 * kFloat, options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(r.columns, kColumnGrain, parts, [&](int64_t begin, int64_t end) {
      loop(input_floats(call, 0), input_floats(call, 1), input_floats(call, 2), r.rows, r.columns,
           output_floats(call, 0), !call.first, begin, end);
    });
  });
}

CpuKernel make_rms_norm(const NodeFacts& facts, const CpuOptions& options) {
  const Rows r = normalized_rows(facts);
  const auto epsilon = static_cast<float>(facts.attributes.get_double("epsilon"));
  const auto loop = PLIMSOLL_PICK(options.isa, rms_norm_rows);
  const int parts = parts_for(r.rows * r.columns * 3 * kFloat, options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(r.rows, 1, parts, [&](int64_t begin, int64_t end) {
      loop(input_floats(call, 0), input_floats(call, 1), epsilon, r.columns, output_floats(call, 0),
           output_floats(call, 1), begin, end);
    });
  });
}

CpuKernel make_rms_norm_grad(const NodeFacts& facts, const CpuOptions& options) {
  const Rows r = normalized_rows(facts);
  const auto loop = PLIMSOLL_PICK(options.isa, rms_norm_grad_rows);
  const int parts = parts_for(r.rows * r.columns * 5 * kFloat, options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(r.rows, 1, parts, [&](int64_t begin, int64_t end) {
      loop(input_floats(call, 0), input_floats(call, 1), input_floats(call, 2),
           input_floats(call, 3), r.columns, output_floats(call, 0), begin, end);
    });
  });
}

CpuKernel make_rms_norm_sums(const NodeFacts& facts, const CpuOptions& options) {
  const Rows r = normalized_rows(facts);
  const auto loop = PLIMSOLL_PICK(options.isa, rms_norm_column_sums);
  const int parts = parts_for(r.rows * r.columns * 2 * kFloat, options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(r.columns, kColumnGrain, parts, [&](int64_t begin, int64_t end) {
      loop(input_floats(call, 0), input_floats(call, 1), input_floats(call, 2), r.rows, r.columns,
           output_floats(call, 0), !call.first, begin, end);
    });
  });
}

CpuKernel make_softmax(const NodeFacts& facts, const CpuOptions& options) {
  const Rows r = read_rows(facts, 1);
  const auto loop = PLIMSOLL_PICK(options.isa, softmax_row);
  const int parts = parts_for(r.rows * r.columns * 2 * kExponentialBytes, options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(r.rows, 1, parts, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        loop(input_floats(call, 0) + row * r.columns, output_floats(call, 0) + row * r.columns,
             r.columns);
      }
    });
  });
}

CpuKernel make_softmax_grad(const NodeFacts& facts, const CpuOptions& options) {
  const Rows r = read_rows(facts, 1);
  const auto loop = PLIMSOLL_PICK(options.isa, softmax_grad_row);
  const int parts = parts_for(r.rows * r.columns * 3 * kFloat, options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(r.rows, 1, parts, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * r.columns;
        loop(input_floats(call, 0) + at, input_floats(call, 1) + at, output_floats(call, 0) + at,
             r.columns);
      }
    });
  });
}

// Rows of logits of which a call has some classes: as many numbers from row to row as `stride`.
int64_t row_stride(const Operand& operand) {
  for (size_t d = operand.dims.size() - 1; d-- > 0;) {
    if (operand.dims[d] != 1) return operand.strides[d];
  }
  return operand.dims.back();
}

struct Classes {
  int64_t rows = 1;
  int axis = -1;

  // The row's label, counted from the first class of the block.
  int64_t label(const KernelCall& call, size_t input, bool wide, int64_t row) const {
    const std::byte* data = call.inputs[input].data;
    const int64_t label = wide ? reinterpret_cast<const int64_t*>(data)[row]
                               : int64_t{reinterpret_cast<const int32_t*>(data)[row]};
    return label - (axis < 0 ? 0 : call.begin[static_cast<size_t>(axis)]);
  }
};

Classes read_classes(const NodeFacts& facts) {
  Classes c;
  const Shape& x = facts.inputs[0].shape;
  c.rows = facts.samples() * x.elements_per_sample() / x[x.rank() - 1].count;
  c.axis = graph::find_axis(facts.axes, "classes");
  return c;
}

CpuKernel strided(CpuKernel made) {
  made.strided = true;
  return made;
}

CpuKernel make_log_sum_exp(const NodeFacts& facts, const CpuOptions& options) {
  const Classes c = read_classes(facts);
  const auto loop = PLIMSOLL_PICK(options.isa, log_sum_row);
  const auto merge = PLIMSOLL_PICK(options.isa, merge_pairs);
  const int parts = parts_for(facts.input_elements(0) * kExponentialBytes, options.parts);
  return strided(kernel_of([=](const KernelCall& call) {
    const int64_t stride = row_stride(call.inputs[0]);
    for_each_range(c.rows, 1, parts, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        float* pair = output_floats(call, 0) + 2 * row;
        float block[2];
        loop(input_floats(call, 0) + row * stride, call.inputs[0].dims.back(),
             call.first ? pair : block);
        if (!call.first) merge(pair, block);
      }
    });
  }));
}

CpuKernel make_crossentropy_grad(const NodeFacts& facts, const CpuOptions& options) {
  const Classes c = read_classes(facts);
  const bool wide = facts.inputs[2].dtype == DType::kInt64;
  if (!wide && facts.inputs[2].dtype != DType::kInt32) return {};
  const auto loop = PLIMSOLL_PICK(options.isa, crossentropy_grad_row);
  const int parts = parts_for(facts.input_elements(0) * kExponentialBytes, options.parts);
  return strided(kernel_of([=](const KernelCall& call) {
    const int64_t from = row_stride(call.inputs[0]);
    const int64_t to = row_stride(call.outputs[0]);
    for_each_range(c.rows, 1, parts, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        loop(input_floats(call, 0) + row * from, input_floats(call, 1) + 2 * row,
             c.label(call, 2, wide, row), input_floats(call, 3)[row],
             output_floats(call, 0) + row * to, call.inputs[0].dims.back());
      }
    });
  }));
}

bool is_float32(const NodeFacts& facts) {
  return !facts.inputs.empty() && facts.inputs[0].dtype == DType::kFloat32;
}

constexpr CpuEntry kEntries[] = {
    {"rms_norm", make_rms_norm},
    {"rms_norm_grad", make_rms_norm_grad},
    {"rms_norm_sums", make_rms_norm_sums},
    {"layer_norm", make_layer_norm},
    {"layer_norm_grad", make_layer_norm_grad},
    {"softmax", make_softmax},
    {"softmax_grad", make_softmax_grad},
    {"layer_norm_sums", make_layer_norm_sums},
};
constexpr CpuEntry kClassEntries[] = {
    {"log_sum_exp", make_log_sum_exp},
    {"softmax_crossentropy_grad", make_crossentropy_grad},
};

}  // namespace

ClassRowLoops pick_class_rows(Isa isa) {
  return {PLIMSOLL_PICK(isa, log_sum_row), PLIMSOLL_PICK(isa, merge_pairs),
          PLIMSOLL_PICK(isa, crossentropy_grad_row)};
}

CpuKernel make_class_rows(const NodeFacts& facts, const CpuOptions& options) {
  return is_float32(facts) ? make_listed(kClassEntries, facts, options) : CpuKernel();
}

CpuKernel make_rows(const NodeFacts& facts, const CpuOptions& options) {
  return is_float32(facts) ? make_listed(kEntries, facts, options) : CpuKernel();
}

}  // namespace plimsoll::backend::cpu
