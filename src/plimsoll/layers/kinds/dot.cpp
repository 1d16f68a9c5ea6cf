// Dot and UnitNormalization: products of each sample's vectors, and vectors of length one.
//
// Dot sums over one axis of each of its two inputs; what is left of the first input's axes comes
// before what is left of the second's, as in keras.layers.Dot. Both are transposed so that the
// product is one of matrices, where they do not lie so.

#include <array>
#include <functional>
#include <numeric>

#include "base/format.h"
#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

// keras.config.epsilon
constexpr double kEpsilon = 1e-7;

std::vector<int64_t> dims_of(const LayerContext& context, ValueId x) {
  std::vector<int64_t> dims = context.type(x).shape.at(1);
  dims.erase(dims.begin());
  return dims;
}

int64_t product_of(const std::vector<int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

class Dot final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Dot";

  explicit Dot(ConfigReader& reader) : Layer(reader) {
    const Config given = reader.value("axes", Config());
    if (given.is_int()) {
      axes_ = {given.as_int(), given.as_int()};
    } else if (given.is_array() && given.as_array().size() == 2 && given.as_array()[0].is_int() &&
               given.as_array()[1].is_int()) {
      axes_ = {given.as_array()[0].as_int(), given.as_array()[1].as_int()};
    } else {
      reader.refuse("axes", "an integer or two of them", given.to_json());
    }
    normalize_ = reader.flag("normalize", false);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.size() != 2) {
      refuse("two inputs", std::to_string(inputs.size()), "Call it on a list of two.");
    }
    const Side left = side(context, inputs[0], axes_[0], true);
    const Side right = side(context, inputs[1], axes_[1], false);
    if (left.summed != right.summed) {
      refuse("the same extent along both axes",
             fmt::format("{} and {}", to_string(context.type(inputs[0]).shape),
                         to_string(context.type(inputs[1]).shape)),
             "Check \"axes\".");
    }
    const ValueId y = context.emit(
        "batch_matmul", {left.matrix, right.matrix},
        {{"transpose_left", left.summed_first}, {"transpose_right", !right.summed_first}});
    std::vector<int64_t> dims = left.rest;
    dims.insert(dims.end(), right.rest.begin(), right.rest.end());
    if (dims.empty()) dims.push_back(1);  // a number for each sample
    return {context.emit("reshape", {y}, {{"shape", dims}})};
  }

 private:
  // An input as a matrix of each sample: one axis is summed over, the other is what is left.
  struct Side {
    ValueId matrix;
    bool summed_first = false;
    int64_t summed = 1;
    std::vector<int64_t> rest;
  };

  Side side(LayerContext& context, ValueId x, int64_t axis, bool left) const {
    const Shape shape = one_input(context, std::span(&x, 1), 0);
    const int64_t counted = axis < 0 ? axis + shape.rank() : axis;
    if (counted < 1 || counted >= shape.rank()) {
      refuse("axes after the batch", fmt::format("{} on {}", axis, to_string(shape)),
             "Samples are not mixed.");
    }
    if (normalize_) {
      x = context.emit("l2_normalize", {x}, {{"axis", counted}, {"epsilon", kEpsilon}});
    }
    Side result;
    result.rest = dims_of(context, x);
    result.summed = shape[static_cast<int>(counted)].count;
    result.rest.erase(result.rest.begin() + (counted - 1));
    result.summed_first = counted == 1;
    if (!result.summed_first && counted != shape.rank() - 1) {
      x = context.emit("transpose", {x}, {{"permutation", last_after(counted, shape.rank())}});
    }
    // One axis alone is a row on the left and a column on the right.
    if (result.rest.empty()) result.summed_first = !left;
    const int64_t others = product_of(result.rest);
    const std::vector<int64_t> dims = result.summed_first
                                          ? std::vector<int64_t>{result.summed, others}
                                          : std::vector<int64_t>{others, result.summed};
    result.matrix = context.emit("reshape", {x}, {{"shape", dims}});
    return result;
  }

  // The order of axes in which `axis` comes last.
  static std::vector<int64_t> last_after(int64_t axis, int rank) {
    std::vector<int64_t> order;
    for (int64_t d = 1; d < rank; ++d) {
      if (d != axis) order.push_back(d);
    }
    order.push_back(axis);
    return order;
  }

  std::array<int64_t, 2> axes_{};
  bool normalize_ = false;
};

class UnitNormalization final : public Layer {
 public:
  static constexpr std::string_view kClassName = "UnitNormalization";

  explicit UnitNormalization(ConfigReader& reader) : Layer(reader) {
    Config given = reader.value("axis", -1);
    if (given.is_array() && given.as_array().size() == 1) given = given.as_array()[0];
    if (!given.is_int()) {
      reader.refuse("axis", "one axis after the batch", given.to_json(),
                    "Reshape the value so that one axis holds each vector.");
    }
    axis_ = given.as_int();
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, 0);
    const int64_t counted = axis_ < 0 ? axis_ + shape.rank() : axis_;
    if (counted < 1 || counted >= shape.rank()) {
      refuse("an axis after the batch", fmt::format("{} on {}", axis_, to_string(shape)),
             "Samples are not mixed.");
    }
    return {context.emit("l2_normalize", {inputs[0]}, {{"axis", counted}, {"epsilon", kEpsilon}})};
  }

 private:
  int64_t axis_ = -1;
};

}  // namespace

std::shared_ptr<const Layer> make_dot(const Config& config) { return construct_layer<Dot>(config); }
std::shared_ptr<const Layer> make_unit_normalization(const Config& config) {
  return construct_layer<UnitNormalization>(config);
}

}  // namespace plimsoll::layers
