#pragma once

// What a call of a layer works with: the values' types and masks, and the graph that it adds nodes
// to (expansion.h).

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "layers/config/config.h"

namespace plimsoll::layers {

using graph::Attributes;
using graph::ValueId;
using graph::ValueType;

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
  // The node that made it; null: it is an input or a weight. Valid until the next one is added.
  const graph::Node* maker(ValueId value) const;

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

}  // namespace plimsoll::layers
