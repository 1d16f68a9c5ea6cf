// Dropout: in training, a part of the elements becomes zero and the others grow to make up for it.
//
// Where noise_shape has a 1 after the batch, all elements along that axis share one draw: (null,
// 1, 1, 1) drops whole samples. Such values are transposed so that the axes which draw for
// themselves lie last, where spatial_dropout finds them.

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/format.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/operation_call.h"
#include "ops/rules.h"

namespace plimsoll::layers {
namespace {

double read_rate(ConfigReader& reader, std::string_view key) {
  const std::optional<double> rate = reader.optional_number(key);
  if (!rate || !(*rate >= 0 && *rate < 1)) {
    reader.refuse(key, "0 to below 1", rate ? Config(*rate).to_json() : "none");
  }
  return *rate;
}

class Dropping : public Layer {
 public:
  bool elementwise() const override { return noise_shape_.is_null(); }

 protected:
  explicit Dropping(ConfigReader& reader) : Layer(reader) {
    rate_ = read_rate(reader, "rate");
    const Config seed = reader.value("seed", Config());
    if (!seed.is_null() && !seed.is_int()) {
      reader.refuse("seed", "an integer or null", seed.to_json());
    }
    noise_shape_ = reader.value("noise_shape", Config());
    if (!noise_shape_.is_null() && !noise_shape_.is_array()) {
      reader.refuse("noise_shape", "a list with one entry for each dimension, or null",
                    noise_shape_.to_json());
    }
  }

  bool drops(const LayerContext& context) const { return context.training() && rate_ > 0; }
  double rate() const { return rate_; }

  ValueId dropped(LayerContext& context, ValueId x) const {
    const Attributes draws{{"rate", rate_}, {"site", context.call_site()}};
    const std::vector<bool> shared = shared_axes(context, x);
    if (std::ranges::find(shared, true) == shared.end()) {
      return context.emit("dropout", {x}, draws);
    }
    return drop_together(context, x, shared, draws);
  }

 private:
  // For each axis after the batch: whether its elements share a draw.
  std::vector<bool> shared_axes(const LayerContext& context, ValueId x) const {
    const Shape shape = context.type(x).shape;
    std::vector<bool> shared(static_cast<size_t>(shape.rank() - 1));
    if (noise_shape_.is_null()) return shared;
    const Config::Array& noise = noise_shape_.as_array();
    const auto refuse_noise = [&] {
      context.refuse(fmt::format("a noise_shape that is null for the batch, and null, 1 or the "
                                 "extent for each of the dimensions after it of {}",
                                 to_string(shape)),
                     noise_shape_.to_json(), "Samples never share a draw.");
    };
    if (noise.size() != static_cast<size_t>(shape.rank()) || !noise[0].is_null()) refuse_noise();
    for (int d = 1; d < shape.rank(); ++d) {
      const Config& entry = noise[static_cast<size_t>(d)];
      if (entry.is_null()) continue;
      if (!entry.is_int() || (entry.as_int() != 1 && entry.as_int() != shape[d].count)) {
        refuse_noise();
      }
      shared[static_cast<size_t>(d - 1)] = entry.as_int() == 1 && shape[d].count != 1;
    }
    return shared;
  }

  static ValueId drop_together(LayerContext& context, ValueId x, const std::vector<bool>& shared,
                               const Attributes& draws) {
    const std::vector<int64_t> dims = ops::sample_dims(context.type(x).shape);
    std::vector<int64_t> transposed;  // axes that share first
    for (const bool which : {true, false}) {
      for (size_t d = 0; d < dims.size(); ++d) {
        if (shared[d] == which) transposed.push_back(static_cast<int64_t>(d) + 1);
      }
    }
    std::vector<int64_t> back(transposed.size());
    std::vector<int64_t> transposed_dims;
    int64_t together = 1;
    int64_t alone = 1;
    for (size_t d = 0; d < transposed.size(); ++d) {
      const auto axis = static_cast<size_t>(transposed[d] - 1);
      back[axis] = static_cast<int64_t>(d) + 1;
      transposed_dims.push_back(dims[axis]);
      (shared[axis] ? together : alone) *= dims[axis];
    }
    const bool in_order = std::ranges::is_sorted(transposed);
    if (!in_order) x = context.emit("transpose", {x}, {{"permutation", transposed}});
    x = context.emit("reshape", {x}, {{"shape", std::vector<int64_t>{together, alone}}});
    x = context.emit("spatial_dropout", {x}, draws);
    x = context.emit("reshape", {x}, {{"shape", transposed_dims}});
    return in_order ? x : context.emit("transpose", {x}, {{"permutation", back}});
  }

  double rate_ = 0;
  Config noise_shape_;
};

class Dropout final : public Dropping {
 public:
  static constexpr std::string_view kClassName = "Dropout";

  explicit Dropout(ConfigReader& reader) : Dropping(reader) {}

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 0);
    return {drops(context) ? dropped(context, inputs[0]) : inputs[0]};
  }
};

// What is dropped becomes SELU's lowest value, and all is scaled and shifted so that numbers of
// mean 0 and variance 1 keep both (Klambauer et al., "Self-Normalizing Neural Networks", 2017).
class AlphaDropout final : public Dropping {
 public:
  static constexpr std::string_view kClassName = "AlphaDropout";

  explicit AlphaDropout(ConfigReader& reader) : Dropping(reader) {}

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 0);
    if (!drops(context)) return {inputs[0]};
    constexpr double kLowest =
        -1.6732632423543772848170429916717 * 1.0507009873554804934193349852946;
    const double scale = 1 / std::sqrt((1 - rate()) * (1 + rate() * kLowest * kLowest));
    const ValueId kept =
        compared(context, dropped(context, filled_like(context, inputs[0], 1)), "greater", 0);
    const ValueId x = as_real(context, inputs[0]);
    const ValueId y = chosen(context, kept, x, filled_like(context, x, kLowest));
    return {scaled(context, y, scale, -scale * kLowest * rate())};
  }
};

// Whole samples, as ConvNeXt drops what its blocks add.
class StochasticDepth final : public Layer {
 public:
  static constexpr std::string_view kClassName = "StochasticDepth";

  explicit StochasticDepth(ConfigReader& reader) : Layer(reader) {
    rate_ = read_rate(reader, "drop_path_rate");
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, 0);
    if (!context.training()) return {inputs[0]};
    context.set_mask(0, ValueId());  // Keras's gives other values, without the mask of these
    if (rate_ == 0) return {inputs[0]};
    const int64_t places = shape.elements_per_sample() / shape[0].count;
    const Attributes draws{{"rate", rate_}, {"site", context.call_site()}};
    ValueId x = context.emit("reshape", {inputs[0]}, {{"shape", std::vector<int64_t>{places, 1}}});
    x = context.emit("spatial_dropout", {x}, draws);
    return {context.emit("reshape", {x}, {{"shape", ops::sample_dims(shape)}})};
  }

 private:
  double rate_ = 0;
};

}  // namespace

std::shared_ptr<const Layer> make_alpha_dropout(const Config& config) {
  return construct_layer<AlphaDropout>(config);
}
std::shared_ptr<const Layer> make_dropout(const Config& config) {
  return construct_layer<Dropout>(config);
}
std::shared_ptr<const Layer> make_stochastic_depth(const Config& config) {
  return construct_layer<StochasticDepth>(config);
}

}  // namespace plimsoll::layers
