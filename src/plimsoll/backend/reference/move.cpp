// Kernels that only move: views, state writes, packs, concatenation, slices, padding, transposes,
// constants.

#include <cstring>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "base/bfloat16.h"
#include "base/format.h"

namespace plimsoll::backend::reference {
namespace {

// Copies a box of elements of so many bytes; boxes in place stay.
void copy_box(const Operand& from, int64_t from_offset, const Operand& to, int64_t to_offset,
              std::span<const int64_t> dims, int64_t element) {
  if (from.data + from_offset * element == to.data + to_offset * element) return;
  for_each_run<2>(dims, {from.strides, to.strides}, [&](const auto& at, int64_t, int64_t count) {
    std::memmove(to.data + (to_offset + at[1]) * element,
                 from.data + (from_offset + at[0]) * element, static_cast<size_t>(count * element));
  });
}

// Dense on both sides: the shapes differ, the bytes do not. Without an output there is nothing to
// do (a state that is written in place).
std::unique_ptr<Kernel> make_copy(const Problem& problem) {
  const int64_t element = element_bytes(problem.inputs[0].dtype).count();
  return kernel_of([element](const KernelCall& call) {
    if (call.outputs.empty() || call.outputs[0].data == nullptr) return;
    const Operand& from = call.inputs[0];
    if (from.data == call.outputs[0].data) return;
    std::memmove(call.outputs[0].data, from.data, static_cast<size_t>(count_of(from) * element));
  });
}

std::unique_ptr<Kernel> make_pack(const Problem& problem) {
  const std::string layout = problem.attributes.get_string("layout");
  const Bytes bytes = tensor_bytes(problem.inputs[0].dtype, problem.inputs[0].shape, 1);
  if (layout != "plain" || problem.attributes.get_int("bytes") != bytes.count()) {
    throw Error(ErrorKind::kBackend,
                fmt::format("reference: expected the layout \"plain\" of {} bytes, received \"{}\" "
                            "of {}. Plan the model for this backend.",
                            bytes.count(), layout, problem.attributes.get_int("bytes")));
  }
  return make_copy(problem);
}

size_t axis_of(const Problem& problem) {
  const int64_t axis = problem.attributes.get_int("axis", -1);
  return static_cast<size_t>(axis < 0 ? axis + problem.inputs[0].shape.rank() : axis);
}

std::unique_ptr<Kernel> make_concat(const Problem& problem) {
  const int64_t element = element_bytes(problem.inputs[0].dtype).count();
  return kernel_of([axis = axis_of(problem), element](const KernelCall& call) {
    const Operand& y = call.outputs[0];
    int64_t begin = 0;
    for (const Operand& x : call.inputs) {
      copy_box(x, 0, y, begin * y.strides[axis], x.dims, element);
      begin += x.dims[axis];
    }
  });
}

std::unique_ptr<Kernel> make_slice(const Problem& problem) {
  const int64_t element = element_bytes(problem.inputs[0].dtype).count();
  const int64_t begin = problem.attributes.get_int("begin");
  return kernel_of([axis = axis_of(problem), begin, element](const KernelCall& call) {
    const Operand& x = call.inputs[0];
    copy_box(x, begin * x.strides[axis], call.outputs[0], 0, call.outputs[0].dims, element);
  });
}

void clear(const Operand& y, int64_t element) {
  for_each_run<1>(y.dims, {y.strides}, [&](const auto& at, int64_t, int64_t count) {
    std::memset(y.data + at[0] * element, 0, static_cast<size_t>(count * element));
  });
}

std::unique_ptr<Kernel> make_pad_axis(const Problem& problem) {
  const int64_t element = element_bytes(problem.inputs[0].dtype).count();
  const int64_t before = problem.attributes.get_int("before");
  return kernel_of([axis = axis_of(problem), before, element](const KernelCall& call) {
    const Operand& y = call.outputs[0];
    clear(y, element);
    copy_box(call.inputs[0], 0, y, before * y.strides[axis], call.inputs[0].dims, element);
  });
}

std::unique_ptr<Kernel> make_zero_pad2d(const Problem& problem) {
  const int64_t element = element_bytes(problem.inputs[0].dtype).count();
  const std::vector<int64_t>& borders = problem.attributes.get_ints("padding");
  return kernel_of([top = borders[0], left = borders[2], element](const KernelCall& call) {
    const Operand& y = call.outputs[0];
    clear(y, element);
    copy_box(call.inputs[0], 0, y, top * y.strides[1] + left * y.strides[2], call.inputs[0].dims,
             element);
  });
}

std::unique_ptr<Kernel> make_crop2d(const Problem& problem) {
  const int64_t element = element_bytes(problem.inputs[0].dtype).count();
  const std::vector<int64_t>& borders = problem.attributes.get_ints("cropping");
  return kernel_of([top = borders[0], left = borders[2], element](const KernelCall& call) {
    const Operand& x = call.inputs[0];
    copy_box(x, top * x.strides[1] + left * x.strides[2], call.outputs[0], 0, call.outputs[0].dims,
             element);
  });
}

// The bytes of one element, zero or one.
std::unique_ptr<Kernel> fill(const Problem& problem, double value) {
  const DType dtype = problem.outputs[0].dtype;
  const int64_t element = element_bytes(dtype).count();
  std::array<std::byte, 8> bytes{};
  const auto keep = [&](auto number) { std::memcpy(bytes.data(), &number, sizeof(number)); };
  switch (dtype) {
    case DType::kFloat32:
      keep(static_cast<float>(value));
      break;
    case DType::kFloat64:
      keep(value);
      break;
    case DType::kBFloat16:
      keep(bfloat16_of_float(static_cast<float>(value)));
      break;
    case DType::kInt32:
      keep(static_cast<int32_t>(value));
      break;
    case DType::kInt64:
      keep(static_cast<int64_t>(value));
      break;
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kBool:
      keep(static_cast<uint8_t>(value));
      break;
    default:
      throw Error(ErrorKind::kBackend, "reference: expected a number to fill with, received " +
                                           std::string(to_string(dtype)) +
                                           ". Choose another dtype.");
  }
  return kernel_of([bytes, element](const KernelCall& call) {
    const Operand& y = call.outputs[0];
    for (int64_t i = 0; i < count_of(y); ++i) {
      std::memcpy(y.data + i * element, bytes.data(), static_cast<size_t>(element));
    }
  });
}

// Row by row: elements of either side are of different sizes.
std::unique_ptr<Kernel> make_bitcast(const Problem& problem) {
  const int64_t from = element_bytes(problem.inputs[0].dtype).count();
  const int64_t to = element_bytes(problem.outputs[0].dtype).count();
  return kernel_of([from, to](const KernelCall& call) {
    const Operand& x = call.inputs[0];
    const Operand& y = call.outputs[0];
    const size_t outer = x.dims.size() - 1;
    const auto bytes = static_cast<size_t>(x.dims[outer] * from);
    for_each_index<2>(x.dims.first(outer), {x.strides.first(outer), y.strides.first(outer)},
                      [&](const auto& at, int64_t) {
                        std::memcpy(y.data + at[1] * to, x.data + at[0] * from, bytes);
                      });
  });
}

std::unique_ptr<Kernel> make_zeros(const Problem& problem) { return fill(problem, 0.0); }
std::unique_ptr<Kernel> make_ones(const Problem& problem) { return fill(problem, 1.0); }
std::unique_ptr<Kernel> make_constant(const Problem& problem) {
  return fill(problem, problem.attributes.get_double("value"));
}

// The dimensions of each sample in another order.
std::unique_ptr<Kernel> make_transpose(const Problem& problem) {
  const int64_t element = element_bytes(problem.inputs[0].dtype).count();
  const std::vector<int64_t>& order = problem.attributes.get_ints("permutation");
  return kernel_of([order, element](const KernelCall& call) {
    const Operand& x = call.inputs[0];
    const Operand& y = call.outputs[0];
    // Strides of the input in the output's order.
    std::array<int64_t, kMaxRank> from{};
    from[0] = x.strides[0];
    for (size_t i = 0; i < order.size(); ++i) {
      from[i + 1] = x.strides[static_cast<size_t>(order[i])];
    }
    const Strides strides(from.data(), y.dims.size());
    for_each_run<2>(y.dims, {strides, y.strides}, [&](const auto& at, int64_t, int64_t count) {
      std::memcpy(y.data + at[1] * element, x.data + at[0] * element,
                  static_cast<size_t>(count * element));
    });
  });
}

// Moves bits of any element.
constexpr KernelEntry mover(std::string_view op, std::unique_ptr<Kernel> (*make)(const Problem&)) {
  return {op, make, nullptr, true, true};
}

constexpr KernelEntry kEntries[] = {
    mover("bitcast", make_bitcast),       mover("concat", make_concat),
    mover("constant", make_constant),     mover("crop2d", make_crop2d),
    mover("fold_batch", make_copy),       mover("ones", make_ones),
    mover("unfold_batch", make_copy),     mover("pack", make_pack),
    mover("pad_axis", make_pad_axis),     mover("reshape", make_copy),
    mover("slice", make_slice),           mover("state_write", make_copy),
    mover("stop_gradient", make_copy),    mover("transpose", make_transpose),
    mover("zero_pad2d", make_zero_pad2d), mover("zeros", make_zeros),
};

}  // namespace

std::span<const KernelEntry> move_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
