#include "api/tensor.h"

#include "api/spec_impl.h"
#include "formats/json_text.h"
#include "layers/model/layer_traits.h"

namespace plimsoll {
namespace {

using api::LayerSpec;
using api::TensorNode;
using layers::Config;

std::shared_ptr<const LayerSpec> input_spec(const std::vector<int64_t>& shape,
                                            const InputOptions& options) {
  Config::Array dims(1);
  for (const int64_t dim : shape) dims.emplace_back(dim);
  Config config;
  config.set("batch_shape", std::move(dims));
  config.set("dtype", options.dtype);
  if (!options.name.empty()) config.set("name", options.name);
  return std::make_shared<LayerSpec>(
      LayerSpec{std::string(layers::kInputLayer), std::move(config)});
}

}  // namespace

Input::Input(const std::vector<int64_t>& shape, const InputOptions& options)
    : Input(input_spec(shape, options)) {}

Input::Input(const std::shared_ptr<const LayerSpec>& spec)
    : Tensor(std::make_shared<TensorNode>(TensorNode{spec, {}})), spec_(spec) {}

Layer::Layer(const Input& input) : spec_(input.spec_) {}

Layer Layer::from_keras(std::string_view class_name, std::string_view config_json) {
  Config config =
      formats::parse_json(config_json, "Layer::from_keras(" + std::string(class_name) + ")");
  return Layer(std::make_shared<LayerSpec>(LayerSpec{std::string(class_name), std::move(config)}));
}

Tensor Layer::operator()(const Tensor& input) const { return (*this)(std::vector<Tensor>{input}); }

Tensor Layer::operator()(std::initializer_list<Tensor> inputs) const {
  return (*this)(std::vector<Tensor>(inputs));
}

Tensor Layer::operator()(const std::vector<Tensor>& inputs) const {
  TensorNode node{spec_, {}};
  for (const Tensor& input : inputs) node.inputs.push_back(input.node_);
  return Tensor(std::make_shared<TensorNode>(std::move(node)));
}

}  // namespace plimsoll
