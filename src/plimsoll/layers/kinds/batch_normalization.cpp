// BatchNormalization: in training by the statistics of the batch, or of groups of its samples,
// which also move the moving ones; otherwise, and always where the layer is frozen, by the moving
// ones. With a mask the statistics are those of the places that count (normalize_masked).

#include <functional>

#include "base/format.h"
#include "layers/config/initializers.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/operation.h"
#include "layers/kinds/scale_shift.h"

namespace plimsoll::layers {
namespace {

// keras.config.epsilon
constexpr double kKerasEpsilon = 1e-7;

class BatchNormalization final : public Layer {
 public:
  static constexpr std::string_view kClassName = "BatchNormalization";

  explicit BatchNormalization(ConfigReader& reader) : Layer(reader) {
    read_axis(reader);
    momentum_ = reader.number("momentum", 0.99);
    epsilon_ = read_epsilon(reader);
    if (!(momentum_ >= 0 && momentum_ <= 1)) {
      reader.refuse("momentum", "0 to 1", std::to_string(momentum_));
    }
    scale_shift_ = ScaleShift::read(reader);
    mean_initializer_ = read_initializer(reader, "moving_mean_initializer", "zeros");
    variance_initializer_ = read_initializer(reader, "moving_variance_initializer", "ones");
    reader.refuse_unless_empty("synchronized", "There is one device to train on.");
    reader.refuse_unless_empty("renorm", "Train without renormalization.");
    reader.legacy("renorm_clipping");
    reader.legacy("renorm_momentum");
    reader.refuse_unless_empty("virtual_batch_size", "Statistics are those of the whole batch.");
    reader.legacy("fused");
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.size() != 1 || inputs[0].shape.rank() < 2) return {};
    const Shape& shape = inputs[0].shape;
    const int axis = channels_first(shape.rank()) ? 1 : shape.rank() - 1;
    const std::vector<int64_t> channels = {shape[axis].count};
    std::vector<Weight> weights = scale_shift_.weights(channels);
    weights.push_back({"moving_mean", channels, mean_initializer_, Config(), false});
    weights.push_back({"moving_variance", channels, variance_initializer_, Config(), false});
    return weights;
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape given = one_input(context, inputs, 0);
    const ValueId mask = context.mask(0);
    if (mask.valid() && context.type(mask).shape.rank() != given.rank() - 1) {
      refuse("a mask of all but the last axis", to_string(context.type(mask).shape),
             "End the mask before the layer, by a Reshape.");
    }
    if (channels_first(given.rank())) {
      return {context.channels_first(normalize(context, context.channels_last(inputs[0])))};
    }
    check_axis(given);
    const ValueId image = mask.valid() ? ValueId() : context.known_image(inputs[0]);
    if (image.valid()) return {context.sequence(normalize(context, image))};
    return {normalize(context, inputs[0])};
  }

  bool mixes_samples() const override { return trainable(); }

  // The statistics of all steps are found in one go, as those of channels (step, channel).
  std::vector<ValueId> call_by_steps(LayerContext& context, std::span<const ValueId> inputs,
                                     int64_t steps) const override {
    const Shape given = one_input(context, inputs, 0);
    if (context.mask(0).valid()) return Layer::call_by_steps(context, inputs, steps);
    const bool first = channels_first(given.rank());
    if (!first) check_axis(given);
    const ValueId x = first ? context.channels_last(inputs[0]) : inputs[0];
    const ValueId y = normalize_steps(context, x, steps);
    return {first ? context.channels_first(y) : y};
  }

 private:
  // gamma or beta, as many as there are channels.
  using Parameter = std::function<ValueId(std::string_view)>;

  // Whether the channels of an input of that rank come after the batch and not last.
  bool channels_first(int rank) const { return rank > 2 && (axis_ == 1 || axis_ == 1 - rank); }

  void check_axis(const Shape& given) const {
    if (axis_ == -1 || axis_ == given.rank() - 1) return;
    refuse("axis=-1 or axis=1, the channels", fmt::format("{} on {}", axis_, to_string(given)),
           "Put the channels last.");
  }

  // Normalizes rows with their channels last, of which `steps` of a sample lie after one another.
  ValueId normalize_steps(LayerContext& context, ValueId rows, int64_t steps) const {
    ValueId x = context.emit("unfold_batch", {rows}, {{"steps", steps}});
    const int rank = context.type(x).shape.rank();
    std::vector<int64_t> to_channels;  // (B, step, …, channel) → (B, …, step, channel)
    for (int d = 2; d < rank - 1; ++d) to_channels.push_back(d);
    to_channels.push_back(1);
    to_channels.push_back(rank - 1);
    std::vector<int64_t> back = {rank - 2};
    for (int d = 1; d < rank - 2; ++d) back.push_back(d);
    back.push_back(rank - 1);
    if (rank > 3) x = context.emit("transpose", {x}, {{"permutation", to_channels}});
    std::vector<int64_t> dims = context.type(x).shape.at(1);
    dims.erase(dims.begin());
    std::vector<int64_t> joined(dims.begin(), dims.end() - 1);
    joined.back() *= dims.back();
    x = context.emit("reshape", {x}, {{"shape", joined}});
    const Parameter spread = [&](std::string_view weight) {
      const ValueId wide = context.emit("broadcast", {context.weight(weight)},
                                        {{"shape", std::vector<int64_t>{steps, dims.back()}}});
      return context.emit("reshape", {wide}, {{"shape", std::vector<int64_t>{joined.back()}}});
    };
    x = normalize_by_batch(context, x, spread);
    x = context.emit("reshape", {x}, {{"shape", dims}});
    if (rank > 3) x = context.emit("transpose", {x}, {{"permutation", back}});
    return context.emit("fold_batch", {x});
  }

  // Takes a value with its channels last.
  ValueId normalize(LayerContext& context, ValueId x) const {
    const Parameter as_it_is = [&](std::string_view name) { return context.weight(name); };
    if (!context.training() || !trainable()) {
      std::vector<ValueId> operands = {x, context.statistic("moving_mean"),
                                       context.statistic("moving_variance")};
      add_parameters(operands, as_it_is);
      return context.emit("batch_norm_inference", operands, attributes());
    }
    if (context.mask(0).valid()) return normalize_masked(context, x);
    return normalize_by_batch(context, x, as_it_is);
  }

  Attributes attributes() const {
    return {{"epsilon", epsilon_}, {"scale", scale_shift_.scale}, {"center", scale_shift_.center}};
  }

  // By the statistics of the batch or of its groups, which move the moving ones.
  ValueId normalize_by_batch(LayerContext& context, ValueId x, const Parameter& parameter) const {
    if (context.batch_norm_group() > 0) return normalize_groups(context, x, parameter);
    const Shape shape = context.type(x).shape;
    const ValueId moments = context.emit("channel_moments", {x});
    const int64_t rows = shape.elements_per_sample() / shape[shape.rank() - 1].count;
    move(context, "moving_mean", moments, 0, rows);
    move(context, "moving_variance", moments, 1, rows);
    std::vector<ValueId> operands = {x, moments};
    add_parameters(operands, parameter);
    return context.emit("batch_norm", operands, attributes());
  }

  // As keras.layers.BatchNormalization._moments has it: sums over the places that count, over
  // their number. Two passes over the batch, written in operators that have gradients of their own.
  ValueId normalize_masked(LayerContext& context, ValueId x) const {
    if (channels_first(context.type(x).shape.rank()) || context.batch_norm_group() > 0) {
      refuse("values without a mask", "masked ones",
             "Statistics of masked places are taken over the whole batch and with the channels "
             "last.");
    }
    if (context.type(x).dtype == DType::kBFloat16) {
      x = context.emit("cast", {x}, {{"dtype", "float32"}});
    }
    const ValueId mask = context.mask(0);
    const Shape shape = context.type(x).shape;
    const std::vector<int64_t> channels = {shape[shape.rank() - 1].count};
    const auto spread = [&](ValueId row) { return over_batch(context, row, shape); };
    const auto per_channel = [&](ValueId value) {
      return context.emit("sum_to", {value}, {{"shape", channels}});
    };
    ValueId count = context.emit("cast", {mask}, {{"dtype", "float32"}});
    count = shifted(context, context.emit("batch_sum", {count}), 1.0, kKerasEpsilon);
    count = context.emit("broadcast", {count}, {{"shape", channels}});
    const ValueId sum = per_channel(context.emit("apply_mask", {x, mask}));
    const ValueId mean = context.emit("divide", {sum, count});
    const ValueId centered = context.emit("subtract", {x, spread(mean)});
    const ValueId difference = context.emit("apply_mask", {centered, mask});
    const ValueId squares = per_channel(context.emit("multiply", {difference, difference}));
    const ValueId variance = context.emit("divide", {squares, count});
    move_to(context, "moving_mean", mean);
    move_to(context, "moving_variance", variance);
    ValueId factor =
        context.emit("unary", {shifted(context, variance, 1.0, epsilon_)}, {{"kind", "rsqrt"}});
    if (scale_shift_.scale) {
      factor = context.emit("multiply", {factor, context.weight("gamma")});
    }
    const ValueId y = context.emit("multiply", {centered, spread(factor)});
    if (!scale_shift_.center) return y;
    return context.emit("bias_add", {y, context.weight("beta")});
  }

  static ValueId shifted(LayerContext& context, ValueId x, double scale, double offset) {
    return context.emit("scale_shift", {x}, {{"scale", scale}, {"offset", offset}});
  }

  void move_to(LayerContext& context, std::string_view name, ValueId statistic) const {
    const ValueId kept = shifted(context, context.statistic(name), momentum_, 0.0);
    const ValueId added = shifted(context, statistic, 1.0 - momentum_, 0.0);
    context.set_statistic(name, context.emit("add", {kept, added}));
  }

  ValueId normalize_groups(LayerContext& context, ValueId x, const Parameter& parameter) const {
    const std::vector<ValueId> moved = context.emit_all(
        "moving_moments",
        {x, context.statistic("moving_mean"), context.statistic("moving_variance")},
        {{"momentum", momentum_}, {"group", context.batch_norm_group()}});
    context.set_statistic("moving_mean", moved[0]);
    context.set_statistic("moving_variance", moved[1]);
    std::vector<ValueId> operands = {x};
    add_parameters(operands, parameter);
    Attributes in_groups = attributes();
    in_groups.set("group", context.batch_norm_group());
    return context.emit("batch_norm_groups", operands, in_groups);
  }

  // An integer, or a list of one in older files.
  void read_axis(ConfigReader& reader) {
    Config axis = reader.value("axis", -1);
    if (axis.is_array() && axis.as_array().size() == 1) {
      const Config only = axis.as_array()[0];
      axis = only;
    }
    if (!axis.is_int()) {
      reader.refuse("axis", "one integer", axis.to_json(), "Normalize the channels only.");
    }
    axis_ = axis.as_int();
    reader.complete("axis", axis_);
  }

  void add_parameters(std::vector<ValueId>& operands, const Parameter& parameter) const {
    if (scale_shift_.scale) operands.push_back(parameter("gamma"));
    if (scale_shift_.center) operands.push_back(parameter("beta"));
  }

  void move(LayerContext& context, std::string_view name, ValueId moments, int row,
            int64_t rows) const {
    const ValueId next =
        context.emit("moving_average", {context.statistic(name), moments},
                     {{"momentum", momentum_}, {"row", row}, {"elements_per_sample", rows}});
    context.set_statistic(name, next);
  }

  int64_t axis_ = -1;
  double momentum_ = 0;
  double epsilon_ = 0;
  ScaleShift scale_shift_;
  Config mean_initializer_;
  Config variance_initializer_;
};

}  // namespace

std::shared_ptr<const Layer> make_batch_normalization(const Config& config) {
  return construct_layer<BatchNormalization>(config);
}

}  // namespace plimsoll::layers
