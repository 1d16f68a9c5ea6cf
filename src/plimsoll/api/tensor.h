#pragma once

// Tensors and layers as a program writes them down: symbols, before any number is there.
//
//   pl::Input x({28, 28, 1});                      a model's input, one sample's shape
//   pl::Tensor y = pl::Dense(10)(pl::Flatten()(x));
//   pl::Dense shared(4);  shared(a); shared(b);    one set of weights, two calls
//   pl::Model model(x, y);
//
// Layers and tensors are small values that share what they describe; copies are the same layer.
// Nothing is checked here: a model checks everything when it is made, and its errors name the
// layer.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

namespace api {
struct LayerSpec;
struct TensorNode;
class ModelBuilder;
}  // namespace api

class Input;

class Tensor {
 protected:
  explicit Tensor(std::shared_ptr<const api::TensorNode> node) : node_(std::move(node)) {}

 private:
  friend class Layer;
  friend class api::ModelBuilder;
  std::shared_ptr<const api::TensorNode> node_;
};

class Layer {
 public:
  // An Input may stand in a Sequential's list.
  Layer(const Input& input);  // NOLINT(google-explicit-constructor)

  // Any layer that Plimsoll trains, by Keras's class name and configuration ("Conv2D",
  // R"({"filters": 32, "kernel_size": [3, 3]})"). Throws kModel where that is no JSON.
  static Layer from_keras(std::string_view class_name, std::string_view config_json);

  // Calls the layer. Merging layers (Add, Concatenate) take several tensors.
  Tensor operator()(const Tensor& input) const;
  Tensor operator()(std::initializer_list<Tensor> inputs) const;
  Tensor operator()(const std::vector<Tensor>& inputs) const;

 protected:
  explicit Layer(std::shared_ptr<const api::LayerSpec> spec) : spec_(std::move(spec)) {}

 private:
  friend class api::ModelBuilder;
  std::shared_ptr<const api::LayerSpec> spec_;
};

// Where features come in; `shape` is one sample's, without the batch. Integer types stay integers;
// every floating-point type is float32 inside.
struct InputOptions {
  std::string name{};
  std::string dtype = "float32";
};
class Input : public Tensor {
 public:
  explicit Input(const std::vector<int64_t>& shape, const InputOptions& options = {});

 private:
  friend class Layer;
  std::shared_ptr<const api::LayerSpec> spec_;

  explicit Input(const std::shared_ptr<const api::LayerSpec>& spec);
};

}  // namespace plimsoll
