// Indices as Python has them: x[:, 2], x[..., ::-1], x[:, None, 1:5:2]. The batch stays whole.

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/format.h"
#include "layers/kinds/operation_call.h"

namespace plimsoll::layers {
namespace {

using Values = std::vector<ValueId>;

bool is_kind(const Config& value, std::string_view kind) {
  const Config* name = value.is_object() ? value.find("class_name") : nullptr;
  return name != nullptr && name->is_string() && name->as_string() == kind;
}

struct Slice {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t step = 1;
};

// Reads start:stop:step of an axis of that extent, as Python counts.
Slice slice_of(const OperationCall& call, const Config& item, int64_t extent) {
  const Config* config = item.find("config");
  const auto number = [&](std::string_view key, int64_t fallback) {
    const Config* value = config == nullptr ? nullptr : config->find(key);
    if (value == nullptr || value->is_null()) return fallback;
    if (!value->is_int()) call.refuse("whole numbers in a slice", item.to_json().substr(0, 120));
    return value->as_int();
  };
  Slice slice;
  slice.step = number("step", 1);
  if (slice.step == 0 || slice.step < -kMostElements || slice.step > kMostElements) {
    call.refuse("a step other than 0", item.to_json().substr(0, 120));
  }
  const bool back = slice.step < 0;
  const auto bound = [&](std::string_view key, int64_t fallback) {
    const int64_t given = number(key, fallback);
    if (given == fallback) return given;
    const int64_t at = given < 0 ? given + extent : given;
    return std::clamp<int64_t>(at, back ? -1 : 0, back ? extent - 1 : extent);
  };
  // What no bound can be stands for the one that is not there.
  constexpr int64_t kNone = INT64_MIN;
  const int64_t first = bound("start", kNone);
  const int64_t last = bound("stop", kNone);
  slice.begin = first != kNone ? first : back ? extent - 1 : 0;
  const int64_t end = last != kNone ? last : back ? -1 : extent;
  const int64_t width = back ? slice.begin - end : end - slice.begin;
  slice.count = width <= 0 ? 0 : (width - 1) / std::abs(slice.step) + 1;
  if (slice.count < 1) call.refuse("a slice with elements", item.to_json().substr(0, 120));
  return slice;
}

ValueId cut(LayerContext& context, ValueId x, int64_t axis, const Slice& slice) {
  if (slice.step == 1) return sliced(context, x, axis, slice.begin, slice.count);
  const int64_t low = slice.step > 0 ? slice.begin : slice.begin + (slice.count - 1) * slice.step;
  const int64_t width = (slice.count - 1) * std::abs(slice.step) + 1;
  x = sliced(context, x, axis, low, width);
  if (slice.step < 0) x = context.emit("reverse", {x}, {{"axis", axis}});
  const int64_t step = std::abs(slice.step);
  if (step == 1 || slice.count == 1) return x;
  // The axis is cut into groups of `step` places, and the first of each is taken.
  x = context.emit("pad_axis", {x}, {{"axis", axis}, {"before", int64_t{0}}, {"after", step - 1}});
  std::vector<int64_t> dims = dims_of(context, x);
  const auto at = static_cast<size_t>(axis - 1);
  dims[at] = slice.count;
  dims.insert(dims.begin() + axis, step);
  x = sliced(context, reshaped(context, x, dims), axis + 1, 0, 1);
  dims.erase(dims.begin() + axis);
  return reshaped(context, x, dims);
}

// The batch may be sliced from end to end only.
void expect_all_samples(const OperationCall& call, const Config& item) {
  const Config* config = is_kind(item, "__slice__") ? item.find("config") : nullptr;
  for (const char* bound : {"start", "stop", "step"}) {
    const Config* value = config == nullptr ? nullptr : config->find(bound);
    if (config == nullptr || (value != nullptr && !value->is_null())) {
      call.refuse("all samples of the batch", item.to_json().substr(0, 120),
                  "Samples are not mixed.");
    }
  }
}

Values get_item(const OperationCall& call) {
  LayerContext& context = call.context();
  if (call.argument_count() != 2) call.refuse("a value and its index", "another call");
  ValueId x = call.only();
  const Config& key = call.argument(1, "key");
  const Config::Array items = key.is_array() ? key.as_array() : Config::Array{key};
  const int rank = context.type(x).shape.rank();
  int named = 0;
  int ellipses = 0;
  for (const Config& item : items) {
    const bool dots = is_kind(item, "__ellipsis__");
    ellipses += dots ? 1 : 0;
    named += item.is_null() || dots ? 0 : 1;
  }
  if (ellipses > 1) call.refuse("at most one ellipsis", key.to_json().substr(0, 120));
  if (named > rank) {
    call.refuse(fmt::format("at most {} indices", rank), key.to_json().substr(0, 120));
  }
  std::vector<int64_t> dims;  // of the result, the batch's aside
  int axis = 0;
  const auto keep = [&] {
    if (axis > 0) dims.push_back(context.type(x).shape[axis].count);
    ++axis;
  };
  for (const Config& item : items) {
    if (item.is_null()) {
      if (axis == 0) call.refuse("the batch first", "a new axis before it");
      dims.push_back(1);
    } else if (is_kind(item, "__ellipsis__")) {
      for (int skipped = rank - named; skipped > 0; --skipped) keep();
    } else if (axis == 0) {
      expect_all_samples(call, item);
      ++axis;
    } else if (item.is_int()) {
      const int64_t extent = context.type(x).shape[axis].count;
      const int64_t at = item.as_int() < 0 ? item.as_int() + extent : item.as_int();
      if (at < 0 || at >= extent) {
        call.refuse(fmt::format("an index below {}", extent), item.to_json());
      }
      x = sliced(context, x, axis, at, 1);
      ++axis;
    } else if (is_kind(item, "__slice__")) {
      x = cut(context, x, axis, slice_of(call, item, context.type(x).shape[axis].count));
      keep();
    } else {
      call.refuse("numbers and slices as indices", item.to_json().substr(0, 120));
    }
  }
  while (axis < rank) keep();
  return {context.emit("reshape", {x}, {{"shape", dims}})};
}

constexpr OperationRow kRows[] = {{"GetItem", get_item}};

}  // namespace

std::span<const OperationRow> item_operations() { return kRows; }

}  // namespace plimsoll::layers
