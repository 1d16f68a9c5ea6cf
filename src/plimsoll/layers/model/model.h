#pragma once

// A model: layers, and the calls that connect them.
//
//   Model model("net", ModelKind::kFunctional);
//   Tensor x = model.add_input({{"batch_shape", …}});
//   LayerId dense = model.add_layer("Dense", {{"units", 10}});
//   model.set_outputs({model.call(dense, {x})[0]});
//
// A call infers the types of its outputs at once, so an error names the layer that caused it. The
// first call of a layer makes its weights; further calls share them. Calls stand in the order in
// which they were made, which is a topological order. A model is a value: copies share layers,
// which are immutable. What a step computes is not said here (programs.h).

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "layers/model/layer.h"
#include "layers/model/model_tree.h"

namespace plimsoll::layers {

struct LayerTag;
struct CallTag;
using LayerId = Id<LayerTag>;
using CallId = Id<CallTag>;

// Output `output` of a call.
struct Tensor {
  CallId call{};
  int output = 0;
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

struct LayerCall {
  LayerId layer{};
  std::vector<Tensor> inputs{};  // empty for InputLayer
  std::vector<ValueType> output_types{};
  // Keras's {"args": […], "kwargs": {…}} where {"tensor": i} stands for inputs[i] and everything
  // else is as in the file; null where the call is on its inputs alone, one or a list of them.
  Config arguments{};
  friend bool operator==(const LayerCall&, const LayerCall&) = default;
};

// How Keras calls such a model; a file keeps it.
enum class ModelKind : uint8_t { kSequential, kFunctional };

// An input or output of a whole model.
struct ModelPort {
  std::string name;  // of the layer, or the inner model, that it comes from
  Tensor tensor{};
  ValueType type{};
  friend bool operator==(const ModelPort&, const ModelPort&) = default;
};

// One weight of a model, as state variable "<layer>/<weight>".
struct ModelWeight {
  std::string name;
  LayerId layer{};
  Weight weight{};
  bool trainable = true;  // of weight and layer
  friend bool operator==(const ModelWeight&, const ModelWeight&) = default;
};

struct ParameterCounts {
  int64_t trainable = 0;
  int64_t frozen = 0;
  int64_t total() const { return trainable + frozen; }
  friend bool operator==(const ParameterCounts&, const ParameterCounts&) = default;
};

class Model {
 public:
  explicit Model(std::string name = "model", ModelKind kind = ModelKind::kFunctional);

  const std::string& name() const { return name_; }
  ModelKind kind() const { return kind_; }

  // A configuration without a name gets Keras's: "conv2d", "conv2d_1". Throws kModel.
  LayerId add_layer(std::string_view class_name, const Config& config);
  // Calls a layer; throws kModel naming it. `arguments` is as in LayerCall.
  std::vector<Tensor> call(LayerId layer, const std::vector<Tensor>& inputs,
                           const Config& arguments = Config());
  // An InputLayer and its call.
  Tensor add_input(const Config& config);
  // Sequential: an InputLayer first, then each layer on the output of the one before. A model
  // without an input takes the shape from `batch_shape`, `batch_input_shape`, `input_shape` or
  // `input_dim` of its first layer's configuration. Keeps the outputs up to date.
  LayerId append(std::string_view class_name, const Config& config);

  // Inputs are the InputLayers in the order of their calls unless set. Throws kModel.
  void set_inputs(const std::vector<Tensor>& inputs);
  // `names`: of the outputs, where they are not those of the layers that they come from: an inner
  // model's output is called after the model.
  void set_outputs(const std::vector<Tensor>& outputs, const std::vector<std::string>& names = {});

  size_t layer_count() const { return layers_.size(); }
  const Layer& layer(LayerId id) const { return *layers_[id.index()]; }
  // Invalid where there is none.
  LayerId find_layer(std::string_view name) const;
  std::span<const LayerCall> calls() const { return calls_; }
  const ValueType& type(Tensor tensor) const;
  // Empty for a layer that was never called.
  const std::vector<Weight>& weights(LayerId id) const { return weights_[id.index()]; }

  const std::vector<ModelPort>& inputs() const { return inputs_; }
  const std::vector<ModelPort>& outputs() const { return outputs_; }

  // By layer, and in Keras's order within one.
  std::vector<ModelWeight> all_weights() const;
  ParameterCounts parameters(LayerId id) const;
  ParameterCounts parameters() const;

  // Whether any layer does (layer.h).
  bool asks_for_float16() const;
  // The name of a layer that keeps numbers for each place in a batch (stateful); empty: none does.
  std::string stateful_layer() const;
  // Samples of a batch where an Input says how many; 0: any.
  int64_t fixed_batch() const;

  // Throws kModel with a did-you-mean.
  void set_trainable(std::string_view layer, bool trainable);

  // Throws kModel where inputs or outputs are missing.
  void check_complete() const;

  // How the file that this model came from lists it; null where it is just what is here. Adding
  // layers or calls afterwards makes it null.
  const std::shared_ptr<const ModelTree>& tree() const { return tree_; }
  void set_tree(std::shared_ptr<const ModelTree> tree) { tree_ = std::move(tree); }

 private:
  std::string new_name(std::string_view class_name) const;
  void build_weights(LayerId id, const std::vector<ValueType>& inputs);
  std::vector<ValueType> infer(LayerId id, const std::vector<ValueType>& inputs,
                               const Config& arguments) const;
  ModelPort port(Tensor tensor) const;

  std::string name_;
  ModelKind kind_;
  std::vector<std::shared_ptr<const Layer>> layers_;
  std::vector<std::vector<Weight>> weights_;                // per layer
  std::vector<std::vector<ValueType>> weight_input_types_;  // of the first call, per layer
  std::vector<bool> called_;                                // per layer
  std::vector<LayerCall> calls_;
  std::vector<ModelPort> inputs_;
  std::vector<ModelPort> outputs_;
  std::shared_ptr<const ModelTree> tree_;
};

// The row of one layer in `plimsoll show`.
struct LayerRow {
  std::string name{};
  std::string class_name{};
  std::string output_shape{};  // of its last call: "(B, 26, 26, 32)"
  ParameterCounts parameters{};
  Bytes output_bytes_per_sample{};
  std::vector<std::string> inputs{};  // names of the layers that it is called on
  friend bool operator==(const LayerRow&, const LayerRow&) = default;
};
std::vector<LayerRow> summarize(const Model& model);

}  // namespace plimsoll::layers
