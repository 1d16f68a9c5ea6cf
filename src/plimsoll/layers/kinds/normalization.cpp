// Normalization: (x − mean) / deviation with numbers that were found before training.

#include "base/format.h"
#include "layers/config/initializers.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/operation.h"

namespace plimsoll::layers {
namespace {

// The square of Keras's smallest deviation, 1e-7.
constexpr double kSmallestVariance = 1e-14;

class Normalization final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Normalization";

  explicit Normalization(ConfigReader& reader) : Layer(reader) {
    const Config axis = reader.value("axis", -1);
    const Config::Array list = axis.is_array()  ? axis.as_array()
                               : axis.is_null() ? Config::Array{}
                                                : Config::Array{axis};
    for (const Config& one : list) axes_.push_back(one.as_int());
    reader.complete("axis", list);
    reader.refuse_unless_empty("invert", "Use Rescaling to go back.");
    mean_ = reader.value("mean", Config());
    variance_ = reader.value("variance", Config());
    if (mean_.is_null() != variance_.is_null()) {
      reader.refuse("variance", "mean and variance, or none of them", "one");
    }
  }

  // Found by adapt(): Keras keeps them, and how many samples they are of, as frozen weights.
  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (!mean_.is_null() || inputs.size() != 1 || inputs[0].shape.rank() < 2) return {};
    const std::vector<int64_t> kept = kept_dims(inputs[0].shape);
    return {{"mean", kept, complete_initializer("zeros"), Config(), false},
            {"variance", kept, complete_initializer("ones"), Config(), false},
            {"count", {}, complete_initializer("zeros"), Config(), false}};
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.size() != 1) refuse("one input", std::to_string(inputs.size()), "");
    ValueId x = inputs[0];
    if (!is_floating(context.type(x).dtype)) {
      x = context.emit("cast", {x}, {{"dtype", "float32"}});
    }
    const Shape shape = context.type(x).shape;
    int64_t columns = 1;
    for (int64_t dim : kept_dims(shape)) columns *= dim;
    const int64_t rows = shape.elements_per_sample() / shape[0].count / columns;
    const auto flat = [&](std::string_view weight, const Config& given) {
      const ValueId value =
          given.is_null() ? context.weight(weight)
                          : as_value(context, constant_operand(context, given, DType::kFloat32),
                                     DType::kFloat32);
      const ValueType type = context.type(value);
      if (type.shape.elements_per_sample() != columns) {
        context.refuse(fmt::format("{} numbers as {}", columns, weight), to_string(type.shape), "");
      }
      return context.emit("reshape", {value}, {{"shape", std::vector<int64_t>{columns}}});
    };
    const ValueId mean = flat("mean", mean_);
    const ValueId variance = flat("variance", variance_);
    ValueId y = context.emit("reshape", {x}, {{"shape", std::vector<int64_t>{rows, columns}}});
    y = context.emit("batch_norm_inference", {y, mean, variance},
                     {{"epsilon", kSmallestVariance}, {"scale", false}, {"center", false}});
    std::vector<int64_t> dims = shape.at(1);
    dims.erase(dims.begin());
    return {context.emit("reshape", {y}, {{"shape", dims}})};
  }

 private:
  // Extents of the axes, which must be the last ones.
  std::vector<int64_t> kept_dims(const Shape& shape) const {
    std::vector<int64_t> dims;
    const auto count = static_cast<int64_t>(axes_.size());
    for (int64_t i = 0; i < count; ++i) {
      const int64_t axis = axes_[static_cast<size_t>(i)];
      const int64_t counted = axis < 0 ? axis + shape.rank() : axis;
      if (counted != shape.rank() - count + i || counted < 1) {
        refuse(fmt::format("the last axes of {}", to_string(shape)), std::to_string(axis),
               "Permute the axes to keep to the end first.");
      }
      dims.push_back(shape[static_cast<int>(counted)].count);
    }
    return dims;
  }

  std::vector<int64_t> axes_;
  Config mean_;
  Config variance_;
};

}  // namespace

std::shared_ptr<const Layer> make_normalization(const Config& config) {
  return construct_layer<Normalization>(config);
}

}  // namespace plimsoll::layers
