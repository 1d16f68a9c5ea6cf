#pragma once

// Keras's activations, as `activation` keys of layers and as the Activation layer: by name, or as
// one of the layers that are activations (`activation=LeakyReLU(0.1)`).
//
// The elementwise ones are one operator with a kind; softmax and its relatives are operators of
// their own. Sigmoid and softmax remember their logits, from which losses are computed.

#include "layers/model/layer.h"

namespace plimsoll::layers {

class Activation {
 public:
  // Takes a configuration's value: null (linear), a name, or Keras's description of a function or
  // of a layer. Throws kModel with a did-you-mean.
  static Activation parse(const Config& value);

  // Empty where it is a layer.
  const std::string& name() const { return name_; }
  // As Keras writes it: the name, or the layer.
  Config config() const;
  // Whether it looks at the whole last dimension (softmax and its relatives).
  bool along_last() const;
  // Whether it is a layer that adds to the loss for its outputs.
  bool penalizes_activity() const;
  // Returns x itself where it is linear.
  ValueId apply(LayerContext& context, ValueId x) const;

 private:
  explicit Activation(std::string name) : name_(std::move(name)) {}
  explicit Activation(std::shared_ptr<const Layer> layer) : layer_(std::move(layer)) {}

  std::string name_;
  std::shared_ptr<const Layer> layer_;
};

// Reads the key `activation`; prints it as Keras does.
Activation read_activation_key(ConfigReader& reader);
// All names that Activation::parse knows.
std::vector<std::string> activation_key_names();

}  // namespace plimsoll::layers
