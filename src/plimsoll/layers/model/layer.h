#pragma once

// A layer of Keras's vocabulary: its configuration, its weights, and what one call of it computes.
//
// A layer is immutable and knows no values: `call` adds nodes to a graph that somebody else builds
// (expansion.h), and the operators' shape rules decide which inputs it accepts. Weights are named
// as Keras names them ("kernel", "moving_mean") and listed in Keras's order, which is the order of
// a file's `vars`. A layer that is called several times owns one set of weights.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_lookup.h"
#include "layers/config/config.h"
#include "layers/config/config_reader.h"
#include "layers/model/layer_context.h"

namespace plimsoll::layers {

struct Weight {
  // Keras's name, after the path of the sub-object that has it in a .keras file ("cell/kernel").
  std::string name;
  std::vector<int64_t> shape{};
  Config initializer{};
  Config regularizer{};   // null: none
  bool trainable = true;  // false: a moving statistic
  Config constraint{};    // null: none
  friend bool operator==(const Weight&, const Weight&) = default;
};

class Layer {
 public:
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const std::string& class_name() const { return class_name_; }
  const std::string& name() const { return name_; }
  bool trainable() const { return trainable_; }
  // Its policy in the file is mixed_bfloat16.
  bool computes_in_bfloat16() const { return computes_in_bfloat16_; }
  // It is mixed_float16: the layer computes in float32, which loses nothing.
  bool asks_for_float16() const { return asks_for_float16_; }
  // What is added to the loss for its outputs; null: nothing.
  const Config& activity_regularizer() const { return activity_regularizer_; }
  // Keras 3's get_config, complete and in Keras's order.
  const Config& config() const { return config_; }
  // What InputLayer feeds into a model; no other layer has one.
  virtual std::optional<ValueType> input_type() const { return std::nullopt; }

  // The weights of a layer that is called on values of these types; `call` has accepted them or
  // will refuse.
  virtual std::vector<Weight> weights(std::span<const ValueType>) const { return {}; }
  virtual std::vector<ValueId> call(LayerContext& context,
                                    std::span<const ValueId> inputs) const = 0;
  // In training: a call on rows that are `steps` steps of each sample (fold_batch), as if the layer
  // were called on one step after the other: what mixes samples mixes those of one step, and
  // statistics move once a step, in order. This one does call it so, and refuses more than a few
  // steps: each is a part of the graph.
  virtual std::vector<ValueId> call_by_steps(LayerContext& context, std::span<const ValueId> inputs,
                                             int64_t steps) const;
  // Whether each element of the output depends on the same elements of inputs of one shape, so
  // that it does not matter in which order they lie.
  virtual bool elementwise() const { return false; }
  // And of a call with these arguments.
  virtual bool elementwise_call(const Config&) const { return elementwise(); }
  // Whether, in training, what a sample gives depends on the others of the batch.
  virtual bool mixes_samples() const { return false; }
  // Whether what a call gives depends on all that it is called on together, in training or not, or
  // changes the layer: no wrapper may join calls of it, or cut one.
  virtual bool keeps_calls_apart() const { return false; }
  // Whether a call adds to the loss for its outputs: its own regularizer, or that of a layer
  // inside.
  virtual bool penalizes_activity() const { return !activity_regularizer_.is_null(); }
  virtual bool carries_state() const { return false; }  // stateful
  // What becomes of an InputLayer's data before they are its values; null: nothing.
  virtual std::shared_ptr<const InputLookup> input_lookup() const { return nullptr; }

 protected:
  // Reads name, trainable, dtype and activity_regularizer.
  explicit Layer(ConfigReader& reader);
  void set_activity_regularizer(Config regularizer);
  // For InputLayer, which has a name only.
  Layer(std::string_view class_name, std::string name);

  // Throws kModel: "[<layer>] expected …, received …. <next step>"
  [[noreturn]] void refuse(const std::string& expected, const std::string& received,
                           std::string_view next_step) const;
  // Checks that there is one input, of floating point and of that rank (with the batch; 0: of at
  // least 2), and returns its shape.
  Shape one_input(const LayerContext& context, std::span<const ValueId> inputs, int rank) const;

 private:
  template <typename T>
  friend std::shared_ptr<const Layer> construct_layer(const Config& config);

  std::string class_name_;
  std::string name_;
  bool trainable_ = true;
  bool computes_in_bfloat16_ = false;
  bool asks_for_float16_ = false;
  Config activity_regularizer_;
  Config config_;
};

// Constructs a T from its configuration and keeps the completed configuration.
template <typename T>
std::shared_ptr<const Layer> construct_layer(const Config& config) {
  ConfigReader reader(T::kClassName, config);
  auto layer = std::make_shared<T>(reader);
  layer->config_ = reader.finish();
  return layer;
}

// Throws kModel for a class that is unknown (did-you-mean) or known and refused (why, and what
// instead), and for configurations that are wrong or cannot be trained. `config` has a name.
std::shared_ptr<const Layer> make_layer(std::string_view class_name, const Config& config);
// Class names that make_layer accepts, sorted.
std::vector<std::string> layer_class_names();

// A class of Keras that make_layer refuses: why, and what to do instead.
struct RefusedLayer {
  std::string_view class_name;
  std::string_view why;
  std::string_view instead;
};
std::vector<RefusedLayer> refused_layers();

}  // namespace plimsoll::layers
