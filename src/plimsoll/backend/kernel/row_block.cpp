#include "backend/kernel/row_block.h"

#include <algorithm>
#include <set>

#include "backend/kernel/region.h"
#include "graph/image_rows.h"

namespace plimsoll::backend {
namespace {

using graph::Attributes;
using graph::AxisUse;
using graph::ValueType;

constexpr int kHeight = graph::kImageHeight;

// First row of an operand that rows from `begin` touch.
int64_t first_row(const AxisUse& use, int64_t begin) {
  return use.dimension == kHeight ? std::max<int64_t>(begin * use.stride - use.before, 0) : 0;
}

// The window's reach, or 0 where the operator has no window.
int64_t reach_of(const Attributes& attributes) {
  if (attributes.has("pool_size")) return attributes.get_ints("pool_size")[0];
  if (!attributes.has("kernel_size")) return 0;
  return (attributes.get_ints("kernel_size")[0] - 1) * attributes.get_ints("dilation_rate")[0] + 1;
}

// Rows of the image x and of the windows over it, of the block.
struct WindowRows {
  int64_t input_begin = 0;
  int64_t input = 0;
  int64_t output_begin = 0;
  int64_t output = 0;
};

// The padding above that puts window 0 where it stands over the block's first row of x, and the one
// below that leaves room for all windows.
void set_padding(const WindowRows& rows, Attributes& attributes) {
  const int64_t stride = attributes.get_ints("strides")[0];
  std::vector<int64_t> padding = attributes.get_ints("padding");
  padding[0] += rows.input_begin - rows.output_begin * stride;
  padding[1] = (rows.output - 1) * stride + reach_of(attributes) - rows.input - padding[0];
  attributes.set("padding", padding);
}

// Rows [begin, begin + extent) of the axis.
struct Rows {
  int64_t begin = 0;
  int64_t extent = 0;
};

void cut_to_block(const graph::Axis& axis, const Rows& rows, NodeProblem& problem) {
  const auto cut = [&](const AxisUse& use, ValueType& type) {
    if (use.dimension != kHeight) return;
    Dim& height = type.shape[kHeight];
    const int64_t end = (rows.begin + rows.extent - 1) * use.stride + use.after + 1;
    height.count = std::min(end, height.count) - first_row(use, rows.begin);
  };
  for (size_t i = 0; i < problem.inputs.size(); ++i) cut(axis.inputs[i], problem.inputs[i]);
  for (size_t o = 0; o < problem.outputs.size(); ++o) cut(axis.outputs[o], problem.outputs[o]);
  if (reach_of(problem.attributes) == 0) return;
  // On the way back the image is the result; of a sum over image and windows both are operands.
  const bool back = problem.attributes.has("input_shape");
  const bool sum = !back && axis.kind == graph::AxisKind::kReduce;
  const AxisUse& image_use = back ? axis.outputs[0] : axis.inputs[0];
  const AxisUse& window_use = back ? axis.inputs[0] : sum ? axis.inputs[1] : axis.outputs[0];
  const ValueType& image = back ? problem.outputs[0] : problem.inputs[0];
  const ValueType& windows = back  ? problem.inputs[0]
                             : sum ? problem.inputs[1]
                                   : problem.outputs[0];
  set_padding({first_row(image_use, rows.begin), image.shape[kHeight].count,
               first_row(window_use, rows.begin), windows.shape[kHeight].count},
              problem.attributes);
  if (!back) return;
  std::vector<int64_t> shape = problem.attributes.get_ints("input_shape");
  shape[0] = image.shape[kHeight].count;
  problem.attributes.set("input_shape", shape);
}

}  // namespace

bool cuts_rows(std::span<const graph::Axis> axes, std::span<const int64_t> extents) {
  const int axis = graph::find_axis(axes, graph::kRowsAxis);
  if (axis < 0 || extents.size() <= static_cast<size_t>(axis)) return false;
  return extents[static_cast<size_t>(axis)] < axes[static_cast<size_t>(axis)].extent.count;
}

void take_row_block(std::span<const int64_t> begin, NodeProblem& problem) {
  problem.whole_inputs = problem.inputs;
  problem.rows_axis = graph::find_axis(problem.axes, graph::kRowsAxis);
  if (problem.rows_axis < 0) return;
  const auto a = static_cast<size_t>(problem.rows_axis);
  if (cuts_rows(problem.axes, problem.extents)) {
    cut_to_block(problem.axes[a], {begin.empty() ? 0 : begin[a], problem.extents[a]}, problem);
  }
  problem.axes.erase(problem.axes.begin() + problem.rows_axis);
  if (problem.extents.size() > a) {
    problem.extents.erase(problem.extents.begin() + problem.rows_axis);
  }
}

namespace {

// Where blocks of so many rows miss nothing: from row `begin` to row `last`, all are alike.
struct Inside {
  int64_t begin = 0;
  int64_t last = -1;

  // The block after the one at `at`, or the last one inside where that is one of them: a long axis
  // has very many.
  int64_t after(int64_t at, int64_t block) const {
    const int64_t next = at + block;
    if (at < begin || next > last) return next;
    return next + (last - next) / block * block;
  }
};

Inside find_inside(const graph::Axis& axis, int64_t rows) {
  Inside inside{0, axis.extent.count - rows};
  for (const auto* uses : {&axis.inputs, &axis.outputs}) {
    for (const AxisUse& use : *uses) {
      if (use.stride == 0) continue;
      inside.begin = std::max(inside.begin, (use.before + use.stride - 1) / use.stride);
      const int64_t beyond =
          std::max<int64_t>(0, (use.after + use.before + use.stride - 1) / use.stride);
      inside.last = std::min(inside.last, axis.extent.count - rows - beyond);
    }
  }
  return inside;
}

}  // namespace

std::vector<std::vector<int64_t>> find_row_positions(std::span<const graph::Axis> axes,
                                                     std::span<const int64_t> block,
                                                     std::span<const int64_t> extents) {
  std::vector<std::vector<int64_t>> positions = {std::vector<int64_t>(axes.size(), 0)};
  if (!cuts_rows(axes, extents)) return positions;
  const auto a = static_cast<size_t>(graph::find_axis(axes, graph::kRowsAxis));
  const graph::Axis& axis = axes[a];
  const int64_t whole = axis.extent.count;
  std::set<std::vector<int64_t>> seen;
  std::vector<std::vector<int64_t>> found;
  const auto add = [&](int64_t begin) {
    // By what is missing before and after: heights are multiples of strides, about.
    std::vector<int64_t> missing;
    for (const auto* uses : {&axis.inputs, &axis.outputs}) {
      for (const AxisUse& use : *uses) {
        missing.push_back(std::max<int64_t>(use.before - begin * use.stride, 0));
        const int64_t after = (whole - begin - extents[a]) * use.stride;
        missing.push_back(std::max<int64_t>(use.after + use.before - after, 0));
      }
    }
    if (!seen.insert(missing).second) return;
    found.push_back(positions.front());
    found.back()[a] = begin;
  };
  const Inside inside = find_inside(axis, extents[a]);
  for (int64_t begin = 0; begin < whole; begin = inside.after(begin, block[a])) {
    if (std::min(block[a], whole - begin) == extents[a]) add(begin);
  }
  if (!found.empty()) return found;
  // Not the node's own block: wherever one of this length may stand.
  for (int64_t begin = 0; begin + extents[a] <= whole; begin = inside.after(begin, extents[a])) {
    add(begin);
  }
  add(whole - extents[a]);
  return found;
}

}  // namespace plimsoll::backend
