// SpectralNormalization: a layer whose kernel has a largest singular value of about one.
//
// In training a call first divides the kernel by its largest singular value, which
// {power_iterations} of power iteration find from the vector u that the layer keeps. The kernel is
// that from then on: the optimizer takes its step from there, and nothing is differentiated through
// the division. W is the kernel as a matrix of its last dimension:
//
//   v = u Wᵀ / ‖u Wᵀ‖;  u' = v W / ‖v W‖;  σ = v W u'ᵀ = ‖v W‖;  kernel' = kernel / σ
//
// A kernel of zeros stays, and u with it.

#include "layers/config/initializers.h"
#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

constexpr int64_t kMostIterations = 1000;

class SpectralNormalization final : public Layer {
 public:
  static constexpr std::string_view kClassName = "SpectralNormalization";

  explicit SpectralNormalization(ConfigReader& reader) : Layer(reader) {
    const NamedConfig inner = reader.named("layer", "a layer");
    layer_ = make_layer(inner.class_name, inner.config);
    if (layer_->penalizes_activity()) {
      reader.refuse("layer", "a layer without activity_regularizer", inner.class_name,
                    "Put an ActivityRegularization after this one.");
    }
    iterations_ = reader.integer("power_iterations", 1, 1);
    if (iterations_ > kMostIterations) {
      reader.refuse("power_iterations", "at most 1000", std::to_string(iterations_));
    }
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    std::vector<Weight> weights;
    for (Weight weight : layer_->weights(inputs)) {
      weight.name = kPrefix + weight.name;
      weight.trainable = weight.trainable && layer_->trainable();
      weights.push_back(std::move(weight));
    }
    const Weight* kernel = find_kernel(weights);
    if (kernel == nullptr || kernel->shape.empty()) return weights;
    weights.push_back(
        {.name = "vector_u",
         .shape = {1, kernel->shape.back()},
         .initializer = complete_initializer(Config::Object{
             {"class_name", "TruncatedNormal"}, {"config", Config::Object{{"stddev", 0.02}}}}),
         .trainable = false});
    return weights;
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    std::vector<ValueType> types;
    for (const ValueId input : inputs) types.push_back(context.type(input));
    const std::vector<Weight> own = weights(types);
    const Weight* kernel = find_kernel(own);
    if (kernel == nullptr) {
      refuse("a layer with a kernel or embeddings", layer_->class_name(), "Call the layer itself.");
    }
    if (context.training()) normalize(context, *kernel);
    // Keras leaves the mask on that the layer inside puts on its output.
    const ValueId mask = context.mask(0);
    CallResult result = context.call(*layer_, kPrefix, inputs, std::span(&mask, 1));
    if (!result.masks.empty()) context.set_mask(0, result.masks[0]);
    return std::move(result.outputs);
  }

  bool keeps_calls_apart() const override { return true; }

 private:
  static constexpr const char* kPrefix = "layer/";

  // Keras looks for "kernel", then for "embeddings".
  static const Weight* find_kernel(const std::vector<Weight>& weights) {
    for (const char* name : {"layer/kernel", "layer/embeddings"}) {
      for (const Weight& weight : weights) {
        if (weight.name == name) return &weight;
      }
    }
    return nullptr;
  }

  void normalize(LayerContext& context, const Weight& weight) const {
    const ValueId kernel = context.weight(weight.name);
    const ValueId before = context.statistic("vector_u");
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < weight.shape.size(); ++i) rows *= weight.shape[i];
    const int64_t columns = weight.shape.back();
    const ValueId matrix = reshape(context, kernel, {1, rows, columns});
    ValueId u = reshape(context, before, {1, 1, columns});
    ValueId sigma;
    for (int64_t i = 0; i < iterations_; ++i) {
      const ValueId v = unit(context, product(context, u, matrix, true)).vector;
      const Unit next = unit(context, product(context, v, matrix, false));
      u = next.vector;
      sigma = next.length;
    }
    // 1 / σ is infinite where the kernel is 0: all stays as it is.
    const ValueId inverse = context.emit("unary", {sigma}, {{"kind", "reciprocal"}});
    const ValueId divided = context.emit("multiply", {kernel, inverse});
    context.replace_weight(weight.name, context.emit("if_finite", {divided, kernel, inverse}));
    const ValueId next = reshape(context, u, {1, columns});
    context.set_statistic("vector_u", context.emit("if_finite", {next, before, inverse}));
  }

  struct Unit {
    ValueId vector;  // at length one, or what it is of by 1e7 where it is shorter than that
    ValueId length;  // of what it is of, taken along it
  };

  static Unit unit(LayerContext& context, ValueId x) {
    const ValueId squares = context.emit("sum_squares", {x}, {{"factor", 1.0}});
    ValueId inverse = context.emit("unary", {squares}, {{"kind", "rsqrt"}});
    inverse = context.emit("clip_gradient", {inverse}, {{"kind", "value"}, {"limit", 1e7}});
    return {context.emit("multiply", {x, inverse}), context.emit("multiply", {squares, inverse})};
  }

  static ValueId product(LayerContext& context, ValueId left, ValueId right, bool transpose_right) {
    return context.emit("batch_matmul", {left, right},
                        {{"transpose_left", false}, {"transpose_right", transpose_right}});
  }

  static ValueId reshape(LayerContext& context, ValueId x, const std::vector<int64_t>& shape) {
    return context.emit("reshape", {x}, {{"shape", shape}});
  }

  std::shared_ptr<const Layer> layer_;
  int64_t iterations_ = 1;
};

}  // namespace

std::shared_ptr<const Layer> make_spectral_normalization(const Config& config) {
  return construct_layer<SpectralNormalization>(config);
}

}  // namespace plimsoll::layers
