#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"
#include "formats/keras_json.h"
#include "formats/keras_json_impl.h"

namespace plimsoll::formats {
namespace {

using layers::CallId;
using layers::Config;
using layers::LayerId;
using layers::Model;
using layers::Tensor;

// A tensor as files name it: an output of the n-th call of a layer.
struct TensorName {
  size_t layer = 0;
  size_t call = 0;
  int output = 0;
};

// One call of a layer that waits for its inputs.
struct PendingCall {
  size_t layer = 0;
  std::vector<TensorName> inputs;
  size_t missing = 0;           // calls that must be made first
  std::vector<size_t> waiting;  // pending calls that wait for this one
};

class FunctionalReader {
 public:
  FunctionalReader(const Config& config, const JsonScope& scope)
      : config_(config), scope_(scope), model_(name_of(config), layers::ModelKind::kFunctional) {}

  Model read() {
    read_layers();
    read_calls();
    make_calls();
    model_.set_inputs(read_ports("input_layers"));
    model_.set_outputs(read_ports("output_layers"));
    const Config* trainable = config_.find("trainable");
    if (trainable != nullptr && trainable->is_bool() && !trainable->as_bool()) {
      for (const LayerEntry& entry : entries_) {
        if (entry.class_name != "InputLayer") model_.set_trainable(entry.name, false);
      }
    }
    return std::move(model_);
  }

 private:
  static std::string name_of(const Config& config) {
    const Config* name = config.find("name");
    return name != nullptr && name->is_string() ? name->as_string() : "functional";
  }

  void read_layers() {
    const Config* list = config_.find("layers");
    if (list == nullptr) {
      scope_.refuse(model_.name(), "a Functional configuration with \"layers\"", excerpt(config_));
    }
    list_ = &scope_.layer_list(*list);
    for (size_t i = 0; i < list_->size(); ++i) {
      LayerEntry entry = scope_.read_entry((*list_)[i], i);
      if (entry.name.empty()) {
        scope_.refuse("layer " + std::to_string(i), "a layer with a name", "none");
      }
      if (!positions_.emplace(entry.name, i).second) {
        scope_.refuse(entry.name, "a name of its own for each layer", "the same name twice");
      }
      ids_.push_back(with_context("while reading " + scope_.origin(), [&] {
        return model_.add_layer(entry.class_name, entry.config);
      }));
      entries_.push_back(std::move(entry));
    }
  }

  // All calls, layer by layer; first_call_[i] is where those of layer i begin.
  void read_calls() {
    std::vector<const Config*> nodes;
    for (size_t i = 0; i < entries_.size(); ++i) {
      first_call_.push_back(calls_.size());
      const Config* list = (*list_)[i].find("inbound_nodes");
      const size_t count = list != nullptr && list->is_array() ? list->as_array().size() : 0;
      if (count == 0 && entries_[i].class_name != "InputLayer") {
        scope_.refuse(entries_[i].name, "a layer that is called", "one without \"inbound_nodes\"",
                      "It is no part of the graph: save the model again.");
      }
      for (size_t k = 0; k < std::max<size_t>(count, 1); ++k) {
        calls_.push_back({i, {}, 0, {}});
        nodes.push_back(count == 0 ? nullptr : &list->as_array()[k]);
      }
    }
    first_call_.push_back(calls_.size());
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (nodes[i] != nullptr) read_node(*nodes[i], calls_[i]);
      for (const TensorName& input : calls_[i].inputs) await(i, call_index(input));
      if (i > first_call_[calls_[i].layer]) await(i, i - 1);
    }
  }

  void await(size_t call, size_t needed) {
    ++calls_[call].missing;
    calls_[needed].waiting.push_back(call);
  }
  size_t call_index(const TensorName& tensor) const {
    return first_call_[tensor.layer] + tensor.call;
  }
  const std::string& name_of_call(const PendingCall& call) const {
    return entries_[call.layer].name;
  }

  // Keras 3: {"args": […], "kwargs": {…}}. Keras 2: [[layer, call, output, kwargs], …], or one such
  // tensor alone.
  void read_node(const Config& node, PendingCall& call) {
    const std::string& where = name_of_call(call);
    if (node.is_object()) {
      read_arguments(node, call);
    } else if (is_old_tensor(node)) {
      read_old_tensor(node, call);
    } else if (node.is_array()) {
      for (const Config& tensor : node.as_array()) read_old_tensor(tensor, call);
    } else {
      scope_.refuse(where, "a call in \"inbound_nodes\"", excerpt(node));
    }
    tensor_count_ += static_cast<int64_t>(call.inputs.size());
    if (tensor_count_ > kMaxTensors) {
      scope_.refuse(where, "at most " + std::to_string(kMaxTensors) + " tensors between layers",
                    "more");
    }
    if (call.inputs.empty() && entries_[call.layer].class_name != "InputLayer") {
      scope_.refuse(where, "a call on tensors", "a call without any");
    }
  }

  void read_arguments(const Config& node, PendingCall& call) {
    const std::string& where = name_of_call(call);
    const Config* args = node.find("args");
    if (args == nullptr || !args->is_array()) {
      scope_.refuse(where, "a call with \"args\"", excerpt(node));
    }
    for (size_t i = 0; i < args->as_array().size(); ++i) {
      const Config& argument = args->as_array()[i];
      if (i > 0) {
        if (argument.is_null()) continue;
        scope_.refuse(where, "a call on one tensor or one list of tensors",
                      "a further positional argument",
                      "This version calls layers on their inputs only.");
      }
      if (argument.is_array()) {
        for (const Config& item : argument.as_array()) {
          call.inputs.push_back(read_tensor(item, where));
        }
      } else {
        call.inputs.push_back(read_tensor(argument, where));
      }
    }
    check_keywords(node.find("kwargs"), where);
  }

  // {"class_name": "__keras_tensor__", "config": {"keras_history": [layer, call, output]}}
  TensorName read_tensor(const Config& tensor, const std::string& where) const {
    const Config* class_name = tensor.find("class_name");
    const Config* config = tensor.find("config");
    const Config* history = config == nullptr ? nullptr : config->find("keras_history");
    if (class_name == nullptr || !class_name->is_string() ||
        class_name->as_string() != "__keras_tensor__" || history == nullptr) {
      scope_.refuse(where, "tensors of other layers as inputs", excerpt(tensor),
                    "A constant between layers is an operator of its own, which this version "
                    "does not train.");
    }
    return read_name(*history, where);
  }

  static bool is_old_tensor(const Config& value) {
    return value.is_array() && !value.as_array().empty() && value.as_array()[0].is_string();
  }
  void read_old_tensor(const Config& tensor, PendingCall& call) {
    const std::string& where = name_of_call(call);
    if (!is_old_tensor(tensor)) {
      scope_.refuse(where, "tensors as [layer, call, output, arguments]", excerpt(tensor));
    }
    call.inputs.push_back(read_name(tensor, where));
    if (tensor.as_array().size() > 3) check_keywords(&tensor.as_array()[3], where);
  }

  TensorName read_name(const Config& name, const std::string& where) const {
    if (!name.is_array() || name.as_array().size() < 3 || !name.as_array()[0].is_string() ||
        !name.as_array()[1].is_int() || !name.as_array()[2].is_int()) {
      scope_.refuse(where, "a tensor as [layer, call, output]", excerpt(name));
    }
    const Config::Array& parts = name.as_array();
    const auto found = positions_.find(parts[0].as_string());
    if (found == positions_.end()) {
      scope_.refuse(where, "the name of a layer", "\"" + parts[0].as_string() + "\"",
                    suggestion(parts[0].as_string()));
    }
    const size_t count = first_call_[found->second + 1] - first_call_[found->second];
    const int64_t call = parts[1].as_int();
    if (call < 0 || call >= static_cast<int64_t>(count)) {
      scope_.refuse(where,
                    "a call of " + found->first + " between 0 and " +
                        std::to_string(static_cast<int64_t>(count) - 1),
                    std::to_string(call));
    }
    const int64_t output = parts[2].as_int();
    if (output < 0 || output > kMaxTensors) {
      scope_.refuse(where, "an output of " + found->first, std::to_string(output));
    }
    return {found->second, static_cast<size_t>(call), static_cast<int>(output)};
  }

  std::string suggestion(const std::string& name) const {
    std::vector<std::string> known;
    for (const auto& [layer, position] : positions_) known.push_back(layer);
    std::string hint = did_you_mean(name, known);
    if (!hint.empty()) hint.erase(0, 1);
    return hint;
  }

  // `training` is said by each step; false and null say nothing.
  void check_keywords(const Config* keywords, const std::string& where) const {
    if (keywords == nullptr || !keywords->is_object()) return;
    for (const auto& [key, value] : keywords->as_object()) {
      const bool says_nothing = value.is_null() || (value.is_bool() && !value.as_bool());
      if (says_nothing) continue;
      scope_.refuse(where, "a call without arguments", key + "=" + excerpt(value),
                    "Build the model without this argument and save it again.");
    }
  }

  // Calls are made as soon as their inputs are, in the file's order among those that could be.
  void make_calls() {
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (calls_[i].missing == 0) ready.push(i);
    }
    outputs_.resize(calls_.size());
    size_t made = 0;
    while (!ready.empty()) {
      const size_t next = ready.top();
      ready.pop();
      ++made;
      make_call(next);
      for (const size_t waiting : calls_[next].waiting) {
        if (--calls_[waiting].missing == 0) ready.push(waiting);
      }
    }
    if (made == calls_.size()) return;
    for (const PendingCall& call : calls_) {
      if (call.missing == 0) continue;
      scope_.refuse(name_of_call(call), "a graph without cycles",
                    "a cycle through this layer or in front of it");
    }
  }

  void make_call(size_t index) {
    const PendingCall& call = calls_[index];
    std::vector<Tensor> inputs;
    for (const TensorName& input : call.inputs) inputs.push_back(tensor_of(input, call));
    outputs_[index] = with_context("while reading " + scope_.origin(),
                                   [&] { return model_.call(ids_[call.layer], inputs); });
    scope_.check_sizes(model_, ids_[call.layer], model_.calls().back().output_types);
  }

  Tensor tensor_of(const TensorName& name, const PendingCall& user) const {
    const std::vector<Tensor>& outputs = outputs_[call_index(name)];
    if (static_cast<size_t>(name.output) >= outputs.size()) {
      scope_.refuse(name_of_call(user),
                    "one of the " + std::to_string(outputs.size()) + " outputs of " +
                        entries_[name.layer].name,
                    "output " + std::to_string(name.output));
    }
    return outputs[static_cast<size_t>(name.output)];
  }

  // [layer, call, output], or a list of such. Objects (models of named inputs) are refused.
  std::vector<Tensor> read_ports(const char* key) const {
    const Config* list = config_.find(key);
    if (list == nullptr || !list->is_array()) {
      scope_.refuse(key, "a list of tensors", list == nullptr ? "none" : excerpt(*list),
                    list != nullptr && list->is_object()
                        ? "Inputs and outputs by name are not kept by this version: build "
                          "keras.Model([inputs], [outputs]) from lists."
                        : "");
    }
    if (is_old_tensor(*list)) return {port(*list, key)};
    std::vector<Tensor> ports;
    for (const Config& tensor : list->as_array()) ports.push_back(port(tensor, key));
    return ports;
  }
  Tensor port(const Config& tensor, const char* key) const {
    const TensorName name = read_name(tensor, key);
    return tensor_of(name, calls_[call_index(name)]);
  }

  const Config& config_;
  const JsonScope& scope_;
  Model model_;
  const Config::Array* list_ = nullptr;
  std::vector<LayerEntry> entries_;
  std::vector<LayerId> ids_;
  std::map<std::string, size_t> positions_;  // by name
  std::vector<PendingCall> calls_;
  std::vector<size_t> first_call_;
  std::vector<std::vector<Tensor>> outputs_;  // per call, once made
  int64_t tensor_count_ = 0;
};

}  // namespace

Model read_functional(const Config& config, const JsonScope& scope) {
  return FunctionalReader(config, scope).read();
}

}  // namespace plimsoll::formats
