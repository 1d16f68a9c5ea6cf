#include "formats/keras/keras_calls.h"

#include <algorithm>
#include <string_view>

#include "base/format.h"
#include "base/suggest.h"
#include "formats/keras/keras_json.h"
#include "layers/kinds/sequence/call_numbers.h"
#include "layers/model/layer_traits.h"

namespace plimsoll::formats {
namespace {

using layers::Config;
using layers::TreeCall;
using layers::TreeTensor;

// Lists inside lists of arguments, at most.
constexpr int kMaxArgumentDepth = 16;

// Stands in place of a layer's name: ["_CONSTANT_VALUE", -1, 2.0, arguments].
constexpr std::string_view kConstant = "_CONSTANT_VALUE";

// ["layer", call, output, …], as Keras 2 writes a tensor.
bool is_old_tensor(const Config& value) {
  return value.is_array() && value.as_array().size() >= 3 && value.as_array()[0].is_string() &&
         value.as_array()[1].is_number() && value.as_array()[2].is_number();
}

// The same, as far as where one must stand.
bool names_layer(const Config& value) {
  return value.is_array() && !value.as_array().empty() && value.as_array()[0].is_string();
}

}  // namespace

void CallReader::add_node(size_t node, const Config* inbound) {
  const layers::TreeNode& entry = tree_.nodes[node];
  if (!positions_.emplace(entry.name, node).second) {
    source_.refuse(entry.name, "a name of its own for each layer", "the same name twice");
  }
  std::vector<const Config*> calls;
  if (inbound != nullptr && inbound->is_array()) {
    for (const Config& call : inbound->as_array()) calls.push_back(&call);
  }
  const bool is_input = entry.class_name == layers::kInputLayer;
  if (calls.empty() && !is_input) {
    source_.refuse(entry.name, "a layer that is called", "one without \"inbound_nodes\"",
                   "It is no part of the graph: save the model again.");
  }
  if (is_input) calls.assign(1, nullptr);
  tree_.nodes[node].calls.resize(calls.size());
  inbound_.push_back(std::move(calls));
}

void CallReader::read(const Config* outputs) {
  for (const auto& calls : inbound_) {
    for (const Config* call : calls) keras_3_ = keras_3_ || (call != nullptr && call->is_object());
  }
  lowest_.assign(inbound_.size(), kMaxTensors);
  if (!keras_3_) {
    for (const auto& calls : inbound_) {
      for (const Config* call : calls) {
        if (call != nullptr) find_first_calls(*call);
      }
    }
    if (outputs != nullptr) find_first_calls(*outputs);
  }
  for (size_t i = 0; i < inbound_.size(); ++i) {
    for (size_t k = 0; k < inbound_[i].size(); ++k) {
      if (inbound_[i][k] != nullptr) read_call(*inbound_[i][k], i, tree_.nodes[i].calls[k]);
    }
  }
}

// Notes the lowest call of each node that is named anywhere in `value`.
void CallReader::find_first_calls(const Config& value) {
  if (is_old_tensor(value)) {
    const auto found = positions_.find(value.as_array()[0].as_string());
    if (found != positions_.end() && value.as_array()[1].is_int()) {
      int64_t& lowest = lowest_[found->second];
      lowest = std::min(lowest, value.as_array()[1].as_int());
    }
  }
  if (value.is_array()) {
    for (const Config& item : value.as_array()) find_first_calls(item);
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.as_object()) find_first_calls(item);
  }
}

// The number that Keras gives to the first call of a node.
int64_t CallReader::first_call(size_t node, Place place) const {
  const layers::TreeNode& entry = tree_.nodes[node];
  if (entry.model == nullptr) return 0;
  return layers::first_call_number({.keras_3 = keras_3_,
                                    .port = place == Place::kPort,
                                    .sequential = entry.model->sequential,
                                    .lowest = lowest_[node]});
}

void CallReader::read_call(const Config& node, size_t index, TreeCall& call) {
  const std::string& where = tree_.nodes[index].name;
  if (node.is_object()) {
    read_arguments(node, index, call);
  } else if (node.is_array()) {
    read_old_call(node, index, call);
  } else {
    source_.refuse(where, "a call in \"inbound_nodes\"", excerpt(node));
  }
  tensor_count_ += static_cast<int64_t>(call.inputs.size());
  if (tensor_count_ > kMaxTensors) {
    source_.refuse(where, fmt::format("at most {} tensors between layers", kMaxTensors), "more");
  }
  if (call.inputs.empty()) source_.refuse(where, "a call on tensors", "a call without any");
}

// Keras 3: {"args": […], "kwargs": {…}}
void CallReader::read_arguments(const Config& node, size_t index, TreeCall& call) {
  const std::string& where = tree_.nodes[index].name;
  const Config* args = node.find("args");
  if (args == nullptr || !args->is_array()) {
    source_.refuse(where, "a call with \"args\"", excerpt(node));
  }
  call.args = take_tensors(*args, where, 0, call);
  call.kwargs = take_keywords(node.find("kwargs"), where, call);
}

// Lists are walked, tensors become {"tensor": i}; constants stay as they are.
Config CallReader::take_tensors(const Config& value, const std::string& where, int depth,
                                TreeCall& call) const {
  if (depth > kMaxArgumentDepth) {
    source_.refuse(where, fmt::format("arguments {} lists deep", kMaxArgumentDepth), "more");
  }
  if (value.is_array()) {
    Config::Array items;
    for (const Config& item : value.as_array()) {
      items.push_back(take_tensors(item, where, depth + 1, call));
    }
    return items;
  }
  const Config* class_name = value.find("class_name");
  if (class_name == nullptr || !class_name->is_string()) {
    if (!value.is_object()) return value;
    Config taken{Config::Object{}};
    for (const auto& [key, item] : value.as_object()) {
      taken.set(key, take_tensors(item, where, depth + 1, call));
    }
    return taken;
  }
  if (class_name->as_string() != "__keras_tensor__") return value;
  const Config* config = value.find("config");
  const Config* history = config == nullptr ? nullptr : config->find("keras_history");
  if (history == nullptr) {
    source_.refuse(where, "a tensor with \"keras_history\"", excerpt(value));
  }
  return add_tensor(read_name(*history, where, Place::kArgument), call);
}

Config CallReader::add_tensor(TreeTensor tensor, TreeCall& call) const {
  call.inputs.push_back(tensor);
  return Config::Object{{"tensor", Config(static_cast<int64_t>(call.inputs.size() - 1))}};
}

Config CallReader::take_keywords(const Config* keywords, const std::string& where,
                                 TreeCall& call) const {
  Config taken{Config::Object{}};
  if (keywords == nullptr || !keywords->is_object()) return taken;
  for (const auto& [key, value] : keywords->as_object()) {
    // A list of no masks says that those of the tensors do not count.
    const bool no_masks = key == "mask" && value.is_array();
    if (no_masks || !says_nothing(value)) taken.set(key, take_tensors(value, where, 1, call));
  }
  return taken;
}

// Keras 2: [[layer, call, output, kwargs], …], or one such tensor alone.
void CallReader::read_old_call(const Config& node, size_t index, TreeCall& call) {
  Config::Array args;
  call.kwargs = Config(Config::Object{});
  if (names_layer(node)) {
    read_old_tensor(node, index, call, args);
  } else {
    for (const Config& tensor : node.as_array()) read_old_tensor(tensor, index, call, args);
  }
  if (args.size() > 1) args = {Config(std::move(args))};
  call.args = std::move(args);
}

void CallReader::read_old_tensor(const Config& tensor, size_t index, TreeCall& call,
                                 Config::Array& args) {
  const std::string& where = tree_.nodes[index].name;
  if (!names_layer(tensor)) {
    source_.refuse(where, "tensors as [layer, call, output, arguments]", excerpt(tensor));
  }
  const Config::Array& parts = tensor.as_array();
  const bool constant = parts[0].as_string() == kConstant && parts.size() >= 3;
  args.push_back(constant ? parts[2]
                          : add_tensor(read_name(tensor, where, Place::kArgument), call));
  if (tensor.as_array().size() < 4 || !tensor.as_array()[3].is_object()) return;
  for (const auto& [key, value] : tensor.as_array()[3].as_object()) {
    if (!says_nothing(value)) call.kwargs.set(key, take_old_keyword(value, where, 0, call));
  }
}

// Keras 2 writes a tensor among keyword arguments as it writes any other.
Config CallReader::take_old_keyword(const Config& value, const std::string& where, int depth,
                                    TreeCall& call) const {
  if (is_old_tensor(value)) return add_tensor(read_name(value, where, Place::kArgument), call);
  if (!value.is_array() || depth > kMaxArgumentDepth) return value;
  Config::Array items;
  for (const Config& item : value.as_array()) {
    items.push_back(take_old_keyword(item, where, depth + 1, call));
  }
  return items;
}

TreeTensor CallReader::read_name(const Config& name, const std::string& where, Place place) const {
  if (!name.is_array() || name.as_array().size() < 3 || !name.as_array()[0].is_string() ||
      !name.as_array()[1].is_int() || !name.as_array()[2].is_int()) {
    source_.refuse(where, "a tensor as [layer, call, output]", excerpt(name));
  }
  const Config::Array& parts = name.as_array();
  const auto found = positions_.find(parts[0].as_string());
  if (found == positions_.end()) {
    source_.refuse(where, "the name of a layer", "\"" + parts[0].as_string() + "\"",
                   suggestion(parts[0].as_string()));
  }
  const size_t count = inbound_[found->second].size();
  const int64_t first = first_call(found->second, place);
  const int64_t call = layers::call_place(parts[1].as_int(), first, keras_3_);
  if (call < 0 || call >= static_cast<int64_t>(count)) {
    source_.refuse(where,
                   fmt::format("a call of {} between {} and {}", found->first, first,
                               static_cast<int64_t>(count) - 1 + first),
                   std::to_string(parts[1].as_int()));
  }
  const int64_t output = parts[2].as_int();
  if (output < 0 || output > kMaxTensors) {
    source_.refuse(where, "an output of " + found->first, std::to_string(output));
  }
  return {found->second, static_cast<size_t>(call), static_cast<int>(output)};
}

std::string CallReader::suggestion(const std::string& name) const {
  std::vector<std::string> known;
  for (const auto& [layer, position] : positions_) known.push_back(layer);
  std::string hint = did_you_mean(name, known);
  if (!hint.empty()) hint.erase(0, 1);
  return hint;
}

Config CallReader::read_ports(const Config* ports, const char* key,
                              std::vector<TreeTensor>& tensors) const {
  if (ports == nullptr || !(ports->is_array() || ports->is_object())) {
    source_.refuse(key, "a list of tensors", ports == nullptr ? "none" : excerpt(*ports));
  }
  // Older Keras wraps a single port in a list; it stands for one array all the same.
  if (ports->is_array() && ports->as_array().size() == 1 && is_old_tensor(ports->as_array()[0])) {
    return port_structure(ports->as_array()[0], key, 0, tensors);
  }
  return port_structure(*ports, key, 0, tensors);
}

Config CallReader::port_structure(const Config& ports, const char* key, int depth,
                                  std::vector<TreeTensor>& tensors) const {
  if (depth > kMaxArgumentDepth) source_.refuse(key, "a list of tensors", "lists too deep");
  if (names_layer(ports)) {
    tensors.push_back(read_name(ports, key, Place::kPort));
    return Config::Object{{"tensor", Config(static_cast<int64_t>(tensors.size() - 1))}};
  }
  if (ports.is_array()) {
    Config::Array items;
    for (const Config& item : ports.as_array()) {
      items.push_back(port_structure(item, key, depth + 1, tensors));
    }
    return items;
  }
  if (!ports.is_object()) source_.refuse(key, "a list of tensors", excerpt(ports));
  // Keras flattens outputs by their sorted names, whatever the file's order, and lists layers by
  // that; inputs are found by name.
  std::vector<const std::pair<std::string, Config>*> items;
  for (const auto& item : ports.as_object()) items.push_back(&item);
  if (std::string_view(key) == "output_layers") {
    std::ranges::stable_sort(items, {}, [](const auto* item) { return item->first; });
  }
  Config named{Config::Object{}};
  for (const auto* item : items) {
    named.set(item->first, port_structure(item->second, key, depth + 1, tensors));
  }
  return named;
}

}  // namespace plimsoll::formats
