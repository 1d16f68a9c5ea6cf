#pragma once

// A layer of Keras's vocabulary: its configuration, its weights, and what one call of it computes.
//
// A layer is immutable and knows no values: `call` adds nodes to a graph that somebody else builds
// (expansion.h), and the operators' shape rules decide which inputs it accepts. Weights are named
// as Keras names them ("kernel", "moving_mean") and listed in Keras's order, which is the order of
// a file's `vars`. A layer that is called several times owns one set of weights.

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_lookup.h"
#include "graph/builder.h"
#include "layers/config/config.h"
#include "layers/config/config_reader.h"

namespace plimsoll::layers {

using graph::Attributes;
using graph::ValueId;
using graph::ValueType;

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

// What made probabilities of logits.
enum class Probabilities : uint8_t { kSigmoid, kSoftmax };

// Numbers that a file holds as part of a model's structure.
struct ConstantData {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape{};
  std::vector<double> values{};  // row by row; none where `initializer` makes them
  Config initializer{};          // complete (config/initializers.h)
  friend bool operator==(const ConstantData&, const ConstantData&) = default;
};

using Constants = std::map<std::string, ConstantData, std::less<>>;  // by state name

class Layer;
class Expansion;

// What a call is made on besides the inputs, and what it says about its outputs besides values.
struct CallScope {
  // For each input, which positions count, a bool value of its leading dimensions; invalid: all.
  std::span<const ValueId> masks{};
  // Keras's {"args": […], "kwargs": {…}}, {"tensor": i} being input i; null: the inputs alone.
  const Config* arguments = nullptr;
  // The masks of the outputs, where the call says so itself.
  std::vector<ValueId>* output_masks = nullptr;
};

// What a call gave: its outputs, and a mask for each; invalid: none.
struct CallResult {
  std::vector<ValueId> outputs{};
  std::vector<ValueId> masks{};
};

// What a call may do. Valid during the call only.
class LayerContext {
 public:
  LayerContext(Expansion& expansion, const Layer& layer, CallScope scope = {})
      : expansion_(expansion), layer_(layer), scope_(scope) {}

  // For a layer inside of this one: weights and nodes are under a prefix ("forward_layer/").
  LayerContext inside(std::string_view prefix, CallScope scope) const;

  // Calls another layer under a prefix, with masks and what else a call in a model has.
  CallResult call(const Layer& inner, std::string_view prefix, std::span<const ValueId> inputs,
                  std::span<const ValueId> masks, const Config& arguments = Config());

  // The mask of an input; invalid where it has none.
  ValueId mask(size_t input) const;
  // The mask of an output. A call that never says so passes the first input's mask on where Keras's
  // layer does (masking.h).
  void set_mask(size_t output, ValueId mask);
  // Which positions count in one of two masks or in the other.
  ValueId either_mask(ValueId a, ValueId b);
  // From here on the value has no mask, whoever looks at it.
  void take_mask_off(ValueId value);
  // It has one again.
  void put_mask_on(ValueId value);
  // How the call was made; null: on the inputs alone.
  const Config& arguments() const;
  // A value that the file holds and nobody trains, as a frozen state variable of this layer.
  ValueId constant(const ConstantData& data);

  // Adds a node called "<layer>/<operator>" with one output and returns that.
  ValueId emit(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {});
  // The same for an operator with several outputs.
  std::vector<ValueId> emit_all(std::string_view op, std::vector<ValueId> inputs,
                                Attributes attributes = {});
  ValueType type(ValueId value) const;

  // Whether this is a training step.
  bool training() const;
  // Samples whose statistics BatchNormalization takes in training; 0: the whole batch's.
  int64_t batch_norm_group() const;

  // The value of a weight at the start of the step.
  ValueId weight(std::string_view name);
  // What stands in a trained weight's place from here on in this step: the optimizer goes on from
  // it. Throws kModel where the layer was called before in this step.
  void replace_weight(std::string_view name, ValueId value);
  // A moving statistic as the calls before this one left it, and its next value.
  ValueId statistic(std::string_view name);
  void set_statistic(std::string_view name, ValueId next);
  // (B, columns), what a stateful layer keeps from batch to batch; it begins at 0.
  ValueId carried(std::string_view name, int64_t columns);
  void set_carried(std::string_view name, ValueId next);

  // `output` is sigmoid or softmax of `logits`: losses after it are computed from those.
  void remember_logits(ValueId output, ValueId logits, Probabilities made_by);
  // Invalid where `value` is neither.
  ValueId logits_of(ValueId value) const;
  Probabilities made_by(ValueId value) const;  // its logits are known
  // `x` as a tensor of its own, of which no logits are known: what a layer of Keras returns that
  // changes nothing but does not hand its input on.
  ValueId without_logits(ValueId x);
  // A value of rank 3 or more whose channels come first, channels last, and the other way round;
  // the value that it was transposed from, where it was.
  ValueId channels_last(ValueId x);
  ValueId channels_first(ValueId x);
  // A sequence (B, steps, channels) as an image (B, steps, 1, channels), and the other way round;
  // the value that it was made from, where it was.
  ValueId image(ValueId sequence);
  ValueId sequence(ValueId image);
  // Invalid where the sequence was not made from an image, nor ever was one.
  ValueId known_image(ValueId sequence) const;
  // A number for random draws that depends on the layer's name and on how often it was called.
  int64_t call_site();
  int call_sites() const;
  void set_call_sites(int count);  // back to fewer: the same ones come again

  // Throws kModel: "[<layer>] expected …, received …. <next step>"
  [[noreturn]] void refuse(const std::string& expected, const std::string& received,
                           std::string_view next_step) const;

 private:
  Expansion& expansion_;
  const Layer& layer_;
  CallScope scope_;
  std::string prefix_{};  // of weights and nodes, with its slash
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
