#include "layers/kinds/operation_reduce.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/format.h"
#include "ops/rules.h"

namespace plimsoll::layers {
namespace {

int64_t product_of(std::span<const int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

// The value with those axes last, as one.
ValueId with_axes_last(LayerContext& context, ValueId x, std::span<const int64_t> axes) {
  const std::vector<int64_t> dims = ops::sample_dims(context.type(x).shape);
  std::vector<int64_t> order;
  std::vector<int64_t> flat;
  for (int64_t d = 1; d <= static_cast<int64_t>(dims.size()); ++d) {
    if (std::ranges::find(axes, d) != axes.end()) continue;
    order.push_back(d);
    flat.push_back(dims[static_cast<size_t>(d - 1)]);
  }
  flat.push_back(product_of(dims) / product_of(flat));
  order.insert(order.end(), axes.begin(), axes.end());
  if (!std::ranges::is_sorted(order)) {
    x = context.emit("transpose", {x}, {{"permutation", order}});
  }
  return context.emit("reshape", {x}, {{"shape", flat}});
}

ValueId fold_last(LayerContext& context, ValueId x, std::string_view kind) {
  if (kind == "any") return context.emit("any_last", {x});
  if (kind != "all") return context.emit("extremum_last", {x}, {{"of", std::string(kind)}});
  const ValueId none = context.emit("logical", {x}, {{"kind", "not"}});
  return context.emit("logical", {context.emit("any_last", {none})}, {{"kind", "not"}});
}

}  // namespace

ValueId reduce_axes(LayerContext& context, ValueId x, std::span<const int64_t> axes, bool keepdims,
                    std::string_view kind) {
  std::vector<int64_t> sorted(axes.begin(), axes.end());
  std::ranges::sort(sorted);
  const bool logical = kind == "any" || kind == "all";
  const DType wanted = logical ? DType::kBool : DType::kFloat32;
  const bool fits =
      logical ? context.type(x).dtype == DType::kBool : is_floating(context.type(x).dtype);
  if (!fits) x = context.emit("cast", {x}, {{"dtype", std::string(to_string(wanted))}});
  const std::vector<int64_t> dims = ops::sample_dims(context.type(x).shape);
  std::vector<int64_t> kept;
  std::vector<int64_t> left;
  int64_t count = 1;
  for (int64_t d = 1; d <= static_cast<int64_t>(dims.size()); ++d) {
    const int64_t extent = dims[static_cast<size_t>(d - 1)];
    const bool reduced = std::ranges::find(sorted, d) != sorted.end();
    kept.push_back(reduced ? 1 : extent);
    if (reduced) count *= extent;
    if (!reduced) left.push_back(extent);
  }
  ValueId y;
  if (kind == "sum" || kind == "mean") {
    y = context.emit("sum_to", {x}, {{"shape", kept}, {"batched", true}});
    if (kind == "mean") {
      y = context.emit("scale_shift", {y},
                       {{"scale", 1.0 / static_cast<double>(count)}, {"offset", 0.0}});
    }
    if (keepdims) return y;
    return context.emit("reshape", {y}, {{"shape", left}});
  }
  y = fold_last(context, with_axes_last(context, x, sorted), kind);
  return keepdims ? context.emit("reshape", {y}, {{"shape", kept}}) : y;
}

}  // namespace plimsoll::layers
