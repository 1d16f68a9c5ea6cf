// Kernels that only move: borders of images, slices, concatenation. Of any element, on the team.

#include <cstring>

#include "backend/cpu/families.h"

namespace plimsoll::backend::cpu {
namespace {

// A copy of rows, in bytes: `row` of them from each row of the one into each row of the other.
struct RowCopy {
  int64_t row = 0;
  int64_t from_stride = 0;
  int64_t to_stride = 0;
};

void copy_rows(const RowCopy& copy, const std::byte* from, std::byte* to, int64_t begin,
               int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    std::memcpy(to + r * copy.to_stride, from + r * copy.from_stride,
                static_cast<size_t>(copy.row));
  }
}

int64_t row_of(const graph::ValueType& type, int axis) {
  int64_t elements = element_bytes(type.dtype).count();
  for (int i = axis; i < type.shape.rank(); ++i) elements *= type.shape[i].count;
  return elements;
}

int axis_of(const NodeFacts& facts) {
  const auto axis = static_cast<int>(facts.attributes.get_int("axis", -1));
  return axis < 0 ? axis + facts.inputs[0].shape.rank() : axis;
}

int64_t bytes_of_output(const NodeFacts& facts) {
  return facts.output_elements(0) * element_bytes(facts.outputs[0].dtype).count();
}

CpuKernel make_concat(const NodeFacts& facts, const CpuOptions& options) {
  const int axis = axis_of(facts);
  const int64_t to_stride = row_of(facts.outputs[0], axis);
  const int64_t bytes = bytes_of_output(facts);
  const int64_t rows = bytes / to_stride;
  const int parts = parts_for(2 * bytes, options.parts);
  std::vector<RowCopy> copies;
  for (const graph::ValueType& x : facts.inputs) {
    copies.push_back({row_of(x, axis), row_of(x, axis), to_stride});
  }
  return kernel_of([=](const KernelCall& call) {
    for_each_range(rows, 1, parts, [&](int64_t begin, int64_t end) {
      // Row by row: what is written is one stream.
      for (int64_t r = begin; r < end; ++r) {
        std::byte* to = call.outputs[0].data;
        for (size_t i = 0; i < copies.size(); ++i) {
          copy_rows(copies[i], call.inputs[i].data, to, r, r + 1);
          to += copies[i].row;
        }
      }
    });
  });
}

CpuKernel make_slice(const NodeFacts& facts, const CpuOptions& options) {
  const int axis = axis_of(facts);
  const RowCopy copy{row_of(facts.outputs[0], axis), row_of(facts.inputs[0], axis),
                     row_of(facts.outputs[0], axis)};
  const int64_t offset = facts.attributes.get_int("begin") * row_of(facts.inputs[0], axis) /
                         facts.inputs[0].shape[axis].count;
  const int64_t bytes = bytes_of_output(facts);
  const int parts = parts_for(2 * bytes, options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(bytes / copy.row, 1, parts, [&](int64_t begin, int64_t end) {
      copy_rows(copy, call.inputs[0].data + offset, call.outputs[0].data, begin, end);
    });
  });
}

// An image inside of a larger one: rows of pixels, in bytes.
struct Frame {
  int64_t top = 0;
  int64_t left = 0;    // bytes
  int64_t height = 0;  // of the inner image
  int64_t row = 0;     // bytes of its rows
  int64_t outer_height = 0;
  int64_t outer_row = 0;
};
Frame frame_of(const NodeFacts& facts, std::string_view key, const graph::ValueType& inner,
               const graph::ValueType& outer) {
  const std::vector<int64_t>& borders = facts.attributes.get_ints(key);
  return {borders[0],       borders[2] * row_of(inner, 3), inner.shape[1].count,
          row_of(inner, 2), outer.shape[1].count,          row_of(outer, 2)};
}

CpuKernel make_zero_pad2d(const NodeFacts& facts, const CpuOptions& options) {
  const Frame f = frame_of(facts, "padding", facts.inputs[0], facts.outputs[0]);
  const int64_t bytes = bytes_of_output(facts);
  const int parts = parts_for(2 * bytes, options.parts);
  return kernel_of([=](const KernelCall& call) {
    const std::byte* from = call.inputs[0].data;
    for_each_range(bytes / f.outer_row, 1, parts, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        std::byte* to = call.outputs[0].data + r * f.outer_row;
        const int64_t image = r / f.outer_height;
        const int64_t y = r % f.outer_height - f.top;
        if (y < 0 || y >= f.height) {
          std::memset(to, 0, static_cast<size_t>(f.outer_row));
          continue;
        }
        std::memset(to, 0, static_cast<size_t>(f.left));
        std::memcpy(to + f.left, from + (image * f.height + y) * f.row, static_cast<size_t>(f.row));
        std::memset(to + f.left + f.row, 0, static_cast<size_t>(f.outer_row - f.left - f.row));
      }
    });
  });
}

CpuKernel make_crop2d(const NodeFacts& facts, const CpuOptions& options) {
  const Frame f = frame_of(facts, "cropping", facts.outputs[0], facts.inputs[0]);
  const int64_t bytes = bytes_of_output(facts);
  const int parts = parts_for(2 * bytes, options.parts);
  return kernel_of([=](const KernelCall& call) {
    const std::byte* from = call.inputs[0].data + f.left;
    for_each_range(bytes / f.row, 1, parts, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t source = r / f.height * f.outer_height + f.top + r % f.height;
        std::memcpy(call.outputs[0].data + r * f.row, from + source * f.outer_row,
                    static_cast<size_t>(f.row));
      }
    });
  });
}

constexpr CpuEntry kEntries[] = {
    {"concat", make_concat},
    {"slice", make_slice},
    {"zero_pad2d", make_zero_pad2d},
    {"crop2d", make_crop2d},
};

}  // namespace

CpuKernel make_moving(const NodeFacts& facts, const CpuOptions& options) {
  return make_listed(kEntries, facts, options);
}

}  // namespace plimsoll::backend::cpu
