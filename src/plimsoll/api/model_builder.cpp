#include <unordered_map>
#include <unordered_set>

#include "api/spec_impl.h"
#include "base/error.h"
#include "layers/model/layer_traits.h"

namespace plimsoll::api {
namespace {

using layers::LayerId;
using Node = std::shared_ptr<const TensorNode>;

std::string name_of(const LayerSpec& spec) {
  const layers::Config* name = spec.config.find("name");
  return name != nullptr ? name->as_string() : spec.class_name;
}

// Makes each node's call after those of its inputs; shared layers and shared values are made once.
class GraphBuilder {
 public:
  explicit GraphBuilder(const std::string& name) : model_(name, layers::ModelKind::kFunctional) {}

  void add_input(const Node& node) {
    if (node->layer->class_name != layers::kInputLayer || tensors_.contains(node.get())) {
      throw Error(ErrorKind::kModel, "[" + name_of(*node->layer) +
                                         "] expected different Inputs as a model's inputs, "
                                         "received " +
                                         (tensors_.contains(node.get()) ? "this one twice."
                                                                        : "the output of a "
                                                                          "layer."));
    }
    tensors_.emplace(node.get(), model_.add_input(node->layer->config));
  }

  layers::Tensor build(const Node& output) {
    std::vector<Step> stack;
    if (!tensors_.contains(output.get())) stack.push_back({output.get()});
    while (!stack.empty()) {
      Step& step = stack.back();
      if (step.next_input < step.node->inputs.size()) {
        const TensorNode* input = step.node->inputs[step.next_input++].get();
        if (!tensors_.contains(input)) stack.push_back({input});
      } else {
        const TensorNode* node = step.node;
        stack.pop_back();
        if (!tensors_.contains(node)) tensors_.emplace(node, call(*node));
      }
    }
    return tensors_.at(output.get());
  }

  layers::Model finish(const std::vector<layers::Tensor>& outputs) {
    model_.set_outputs(outputs);
    model_.check_complete();
    return std::move(model_);
  }

 private:
  struct Step {
    const TensorNode* node;
    size_t next_input = 0;
  };

  layers::Tensor call(const TensorNode& node) {
    if (node.layer->class_name == layers::kInputLayer) {
      throw Error(ErrorKind::kModel, "[" + model_.name() +
                                         "] expected every Input that an output depends on among "
                                         "the model's inputs, received one more: " +
                                         name_of(*node.layer) + ". Add it to the inputs.");
    }
    auto layer = layers_.find(node.layer.get());
    if (layer == layers_.end()) {
      const LayerId id = model_.add_layer(node.layer->class_name, node.layer->config);
      layer = layers_.emplace(node.layer.get(), id).first;
    }
    std::vector<layers::Tensor> inputs;
    for (const Node& input : node.inputs) inputs.push_back(tensors_.at(input.get()));
    return model_.call(layer->second, inputs).front();
  }

  layers::Model model_;
  std::unordered_map<const LayerSpec*, LayerId> layers_;
  std::unordered_map<const TensorNode*, layers::Tensor> tensors_;
};

}  // namespace

layers::Model ModelBuilder::functional(const std::vector<Tensor>& inputs,
                                       const std::vector<Tensor>& outputs,
                                       const std::string& name) {
  GraphBuilder builder(name);
  for (const Tensor& input : inputs) builder.add_input(input.node_);
  std::vector<layers::Tensor> made;
  made.reserve(outputs.size());
  for (const Tensor& output : outputs) made.push_back(builder.build(output.node_));
  return builder.finish(made);
}

layers::Model ModelBuilder::sequential(const std::vector<Layer>& layers, const std::string& name) {
  layers::Model model(name, layers::ModelKind::kSequential);
  std::unordered_set<const LayerSpec*> seen;
  for (const Layer& layer : layers) {
    if (!seen.insert(layer.spec_.get()).second) {
      throw Error(ErrorKind::kModel, "[" + name_of(*layer.spec_) +
                                         "] expected each layer once in a Sequential, received "
                                         "this one twice. Call it twice in a pl::Model, which "
                                         "shares its weights, or make two layers.");
    }
    model.append(layer.spec_->class_name, layer.spec_->config);
  }
  model.check_complete();
  return model;
}

}  // namespace plimsoll::api
