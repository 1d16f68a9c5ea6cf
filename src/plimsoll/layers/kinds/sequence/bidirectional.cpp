// Bidirectional: one recurrent layer over a sequence and one against it, merged.
//
// Both run in the sequence's own places; either may be an RNN of cells or a ConvLSTM. Masked steps
// are zero where sequences come out, as Keras forces.

#include "layers/kinds/all_layers.h"
#include "layers/kinds/sequence/recurrent.h"
#include "layers/model/call_arguments.h"

namespace plimsoll::layers {
namespace {

class Bidirectional final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Bidirectional";

  explicit Bidirectional(ConfigReader& reader) : Layer(reader) {
    const Config mode = reader.value("merge_mode", "concat");
    if (!mode.is_null()) {
      merge_mode_ = reader.choice("merge_mode", "concat", {"concat", "sum", "mul", "ave"});
    }
    const Config layer = reader.value("layer", Config());
    forward_ = read_layer(reader, "layer", layer);
    Config backward = reader.value("backward_layer", Config());
    if (backward.is_null()) backward = reversed_layer(layer);
    backward_ = read_layer(reader, "backward_layer", backward);
    reader.complete("backward_layer", backward);
    if (forward_->go_backwards() == backward_->go_backwards()) {
      reader.refuse("backward_layer", "a layer that goes the other way", "one of the same way");
    }
    if (forward_->rank() != backward_->rank()) {
      reader.refuse("backward_layer", "a layer for the same sequences as layer", "another");
    }
    if (forward_->return_sequences() != backward_->return_sequences() ||
        forward_->return_state() != backward_->return_state()) {
      reader.refuse("backward_layer", "return_sequences and return_state as in layer", "others");
    }
    reader.legacy("weights");
    reader.legacy("stateful");
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    std::vector<Weight> weights;
    const auto add = [&](const SequenceLayer& layer, const std::string& prefix) {
      for (Weight weight : layer.weights(inputs)) {
        weight.name = prefix + weight.name;
        weight.trainable = weight.trainable && layer.trainable();
        weights.push_back(std::move(weight));
      }
    };
    add(*forward_, kForward);
    add(*backward_, kBackward);
    return weights;
  }

  bool carries_state() const override {
    return forward_->carries_state() || backward_->carries_state();
  }
  bool keeps_calls_apart() const override { return carries_state(); }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.empty()) refuse("one input", "none", "");
    one_input(context, inputs.first(1), forward_->rank());
    std::vector<ValueId> states(inputs.begin() + 1, inputs.end());
    ValueId mask = context.mask(0);
    if (!context.arguments().is_null()) {
      const CallArguments arguments(context, inputs.size(), {"sequences", "initial_state", "mask"});
      states.clear();
      const std::vector<size_t> first = arguments.tensors("sequences");
      for (size_t i = 1; i < first.size(); ++i) states.push_back(inputs[first[i]]);
      for (size_t i : arguments.tensors("initial_state")) states.push_back(inputs[i]);
      if (!states.empty()) mask = ValueId();  // as in recurrent.cpp
      for (size_t i : arguments.tensors("mask")) mask = as_bool(context, inputs[i]);
    }
    const size_t half = states.size() / 2;
    const std::span<const ValueId> all(states);
    const bool sequences = forward_->return_sequences();
    LayerContext over = context.inside(kForward, {});
    const Recurrence ahead = forward_->run(over, inputs[0], all.first(half), mask, sequences);
    LayerContext against = context.inside(kBackward, {});
    const Recurrence back = backward_->run(against, inputs[0], all.subspan(half), mask, sequences);
    // Keras reverses what the second layer gives, whichever way that went: where the first one went
    // backwards, both are in the order in which it computed.
    const auto output = [&](const Recurrence& run) {
      if (!sequences) return run.last;
      if (!forward_->go_backwards()) return run.sequence;
      return context.emit("reverse", {run.sequence}, {{"axis", 1}});
    };
    const ValueId first = output(ahead);
    std::vector<ValueId> outputs = merge(context, first, output(back));
    for (size_t i = 0; i < outputs.size(); ++i) {
      context.set_mask(i, !sequences ? ValueId() : mask.valid() ? mask : context.mask(0));
    }
    if (forward_->return_state()) {
      outputs.insert(outputs.end(), ahead.states.begin(), ahead.states.end());
      outputs.insert(outputs.end(), back.states.begin(), back.states.end());
    }
    return outputs;
  }

 private:
  static constexpr const char* kForward = "forward_layer/";
  static constexpr const char* kBackward = "backward_layer/";

  static std::shared_ptr<const SequenceLayer> read_layer(const ConfigReader& reader,
                                                         std::string_view key,
                                                         const Config& object) {
    const Config* name = object.is_object() ? object.find("class_name") : nullptr;
    const Config* config = object.is_object() ? object.find("config") : nullptr;
    std::shared_ptr<const SequenceLayer> layer;
    if (name != nullptr && name->is_string() && config != nullptr) {
      layer = make_recurrent(name->as_string(), *config);
    }
    if (layer == nullptr) {
      reader.refuse(key, "an LSTM, GRU, SimpleRNN, RNN or ConvLSTM",
                    name != nullptr ? name->to_json() : object.to_json(),
                    "This version of Plimsoll runs no other layer both ways.");
    }
    if (!layer->activity_regularizer().is_null()) {
      reader.refuse(key, "a layer without activity_regularizer", name->as_string(),
                    "Put an ActivityRegularization after this one.");
    }
    return layer;
  }

  // The same layer the other way, as Keras makes it where none is given.
  static Config reversed_layer(Config layer) {
    if (!layer.is_object() || layer.find("config") == nullptr) return layer;
    Config config = layer.at("config");
    const Config* way = config.find("go_backwards");
    config.set("go_backwards", !(way != nullptr && way->is_bool() && way->as_bool()));
    const Config* name = config.find("name");
    if (name != nullptr && name->is_string()) {
      std::string base = name->as_string();
      if (base.starts_with("forward_")) base.erase(0, 8);
      config.set("name", "backward_" + base);
    }
    layer.set("config", config);
    return layer;
  }

  std::vector<ValueId> merge(LayerContext& context, ValueId ahead, ValueId back) const {
    if (merge_mode_.empty()) return {ahead, back};
    if (merge_mode_ == "concat") return {context.emit("concat", {ahead, back}, {{"axis", -1}})};
    if (merge_mode_ == "mul") return {context.emit("multiply", {ahead, back})};
    const ValueId sum = context.emit("add", {ahead, back});
    if (merge_mode_ == "sum") return {sum};
    return {context.emit("scale_shift", {sum}, {{"scale", 0.5}, {"offset", 0.0}})};
  }

  std::string merge_mode_;  // empty: none, two outputs
  std::shared_ptr<const SequenceLayer> forward_;
  std::shared_ptr<const SequenceLayer> backward_;
};

}  // namespace

std::shared_ptr<const Layer> make_bidirectional(const Config& config) {
  return construct_layer<Bidirectional>(config);
}

}  // namespace plimsoll::layers
