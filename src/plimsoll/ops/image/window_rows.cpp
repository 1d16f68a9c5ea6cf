#include "ops/image/window_rows.h"

#include <algorithm>

#include "graph/image_rows.h"

namespace plimsoll::ops {
namespace {

using graph::Axis;
using graph::AxisKind;
using graph::AxisUse;
using graph::NodeTypes;
using graph::ValueType;

constexpr int kHeight = graph::kImageHeight;

// Rows that a kernel spans.
int64_t reach(const Window& w) { return (w.size - 1) * w.dilation + 1; }

Axis rows_axis(AxisKind kind, int64_t extent) {
  Axis axis;
  axis.name = std::string(graph::kRowsAxis);
  axis.kind = kind;
  axis.extent = Dim::constant(extent);
  return axis;
}

// Rows of x under rows of y; with the last one go those after it that no window reaches, so that
// all rows of y need all of x.
AxisUse rows_under(const Window& w) {
  const int64_t reached = (w.output - 1) * w.stride - w.before + reach(w);
  return {kHeight, w.stride, w.before,
          reach(w) - 1 - w.before + std::max<int64_t>(w.input - reached, 0)};
}

bool is_windowed(const Window& w) {
  return w.output > 1 && w.before >= 0 && w.before <= reach(w) - 1;
}

}  // namespace

std::vector<Axis> window_axes(const NodeTypes& node, const Window& w) {
  std::vector<Axis> axes = graph::batch_map_axis(node);
  if (!graph::is_image(node.inputs[0]) || !is_windowed(w)) return axes;
  Axis rows = rows_axis(AxisKind::kWindow, w.output);
  rows.inputs.resize(node.inputs.size());
  rows.inputs[0] = rows_under(w);
  rows.outputs.assign(node.outputs.size(), {.dimension = kHeight});
  axes.push_back(std::move(rows));
  return axes;
}

std::vector<Axis> window_gradient_axes(const NodeTypes& node, const Window& w, bool overlapping) {
  std::vector<Axis> axes = graph::batch_map_axis(node);
  if (!graph::is_image(node.inputs[0]) || !is_windowed(w)) return axes;
  // A row of the axis is `stride` rows of dx, which see these rows of dy:
  const int64_t above = (reach(w) - 1 - w.before) / w.stride;
  const int64_t below = (w.stride - 1 + w.before) / w.stride;
  const bool even = w.stride == 1 || w.input == w.output * w.stride;
  if (!even || (!overlapping && (above != 0 || below != 0))) return axes;
  Axis rows = rows_axis(AxisKind::kWindow, w.input / w.stride);
  for (const ValueType& type : node.inputs) {
    rows.inputs.push_back(type.shape.has_batch() ? AxisUse{kHeight, 1, above, below} : AxisUse{});
  }
  rows.outputs.push_back({kHeight, w.stride, 0, w.stride - 1});
  axes.push_back(std::move(rows));
  return axes;
}

std::vector<Axis> window_reduce_axes(const NodeTypes& node, const Window& w) {
  std::vector<Axis> axes = graph::batch_reduce_axis(node);
  if (!graph::is_image(node.inputs[0]) || !is_windowed(w)) return axes;
  Axis rows = rows_axis(AxisKind::kReduce, w.output);
  rows.inputs = {rows_under(w), {.dimension = kHeight}};
  rows.outputs.resize(node.outputs.size());
  axes.push_back(std::move(rows));
  return axes;
}

}  // namespace plimsoll::ops
