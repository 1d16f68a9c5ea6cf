#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "formats/keras/keras_lookups.h"
#include "formats/keras/keras_operators.h"
#include "formats/keras/keras_order.h"
#include "formats/keras/keras_tree.h"
#include "layers/model/layer_traits.h"

namespace plimsoll::formats {
namespace {

using layers::CallForm;
using layers::Config;
using layers::LayerId;
using layers::Model;
using layers::ModelTree;
using layers::Tensor;
using layers::TreeCall;
using layers::TreeNode;
using layers::TreeTensor;

constexpr std::array<std::string_view, 4> kShapeKeys = {"batch_shape", "batch_input_shape",
                                                        "input_shape", "input_dim"};
// What an InputLayer is told of the layer after it, beside what is in the file.
constexpr std::string_view kLookup = "lookup";

// One model of the tree, with what expanding it once needs.
struct Level {
  ModelTree tree;
  std::string prefix;
  std::vector<LayerId> layers{};                 // per node; invalid: a model, or an inner input
  std::vector<std::unique_ptr<Level>> models{};  // per node; null: a layer
  std::vector<TreeStep> steps{};                 // of a Functional
};

bool is_input(const TreeNode& node) { return node.class_name == layers::kInputLayer; }

bool reads_numbers(const TreeNode& node) {
  return layers::layer_traits(node.class_name).reads_numbers;
}

// A call on one input, or on one list of inputs, and nothing else.
bool is_plain(const TreeCall& call) {
  const Config::Array& args = call.args.as_array();
  if (args.empty()) return false;
  for (size_t i = 1; i < args.size(); ++i) {
    if (!args[i].is_null()) return false;
  }
  if (!args[0].is_array()) return args[0].find("tensor") != nullptr && call.inputs.size() == 1;
  const Config::Array& list = args[0].as_array();
  return list.size() == call.inputs.size() &&
         std::all_of(list.begin(), list.end(),
                     [](const Config& item) { return item.find("tensor") != nullptr; });
}

// A call on one input, with a mask that another layer made.
bool is_plain_but_for_mask(const TreeCall& call) {
  const Config::Array& args = call.args.as_array();
  const Config::Object& kwargs = call.kwargs.as_object();
  return args.size() == 1 && args[0].find("tensor") != nullptr && call.inputs.size() == 2 &&
         std::all_of(kwargs.begin(), kwargs.end(), [](const auto& item) {
           return item.first == "training" ||
                  (item.first == "mask" && item.second.find("tensor") != nullptr);
         });
}

// The inputs of a call on a model in the model's own order, where both name them.
std::vector<Tensor> arranged(const ModelTree& model, const TreeCall& call,
                             const std::vector<Tensor>& inputs) {
  if (!call.args.is_array() || call.args.as_array().empty()) return inputs;
  const Config& given = call.args.as_array()[0];
  if (!given.is_object() || given.find("tensor") != nullptr || !model.input_structure.is_object() ||
      model.input_structure.find("tensor") != nullptr) {
    return inputs;
  }
  std::vector<Tensor> ordered;
  for (const auto& [name, port] : model.input_structure.as_object()) {
    const Config* argument = given.find(name);
    const Config* tensor = argument == nullptr ? nullptr : argument->find("tensor");
    if (tensor != nullptr) ordered.push_back(inputs[static_cast<size_t>(tensor->as_int())]);
  }
  return ordered;
}

class TreeExpander {
 public:
  TreeExpander(ModelTree& tree, const InputShapes& shapes, const JsonSource& source)
      : shapes_(shapes),
        source_(source),
        model_(tree.name,
               tree.sequential ? layers::ModelKind::kSequential : layers::ModelKind::kFunctional) {}

  Model expand(ModelTree tree) {
    if (tree.sequential) add_sequential_input(tree);
    lookups_ = find_lookups(tree, source_);
    Level top{std::move(tree), ""};
    prepare(top, true, true);
    run_top(top);
    if (input_count_ < shapes_.size()) {
      source_.refuse("--input-shape",
                     fmt::format("at most one shape for each of {} inputs", input_count_),
                     std::to_string(shapes_.size()));
    }
    model_.set_tree(std::make_shared<const ModelTree>(finish(top)));
    return std::move(model_);
  }

 private:
  // Adds the layers of a model, and of those inside it, in the file's order.
  void prepare(Level& level, bool trainable, bool top) {
    trainable = trainable && level.tree.trainable;
    for (TreeNode& node : level.tree.nodes) {
      if (is_input(node)) refuse_own_lookup(node);
      level.layers.emplace_back();
      level.models.emplace_back();
      if (node.model != nullptr) {
        level.models.back() =
            std::make_unique<Level>(Level{*node.model, level.prefix + node.name + "/"});
        prepare(*level.models.back(), trainable, false);
      } else if (!is_input(node) || top) {
        node.layer = level.prefix + node.name;
        level.layers.back() = add_layer(node, level.layers.size() - 1);
        if (!trainable) model_.set_trainable(node.layer, false);
      }
    }
    if (!level.tree.sequential) level.steps = tree_steps(level.tree, source_);
  }

  // `position` is that of the node in its model.
  LayerId add_layer(const TreeNode& node, size_t position) {
    return with_context("while reading " + source_.origin(), [&] {
      if (is_operator(node)) return model_.add_layer(layers::kOperation, operator_config(node));
      Config config = is_input(node) ? fixed_input(node) : node.config;
      config.set("name", node.layer);
      const auto lookup = lookups_.find(position);
      if (is_input(node) && lookup != lookups_.end())
        config.set(std::string(kLookup), lookup->second);
      return model_.add_layer(node.class_name, config);
    });
  }

  // What an input looks up, the layer after it says (find_lookups) and no file for itself.
  void refuse_own_lookup(const TreeNode& node) const {
    if (node.config.find(kLookup) == nullptr) return;
    source_.refuse(node.name, "the options of an InputLayer", fmt::format("\"{}\"", kLookup),
                   "Keras has no such option: save the model again with model.save().");
  }

  // The sizes that the file leaves open, as the user gave them.
  Config fixed_input(const TreeNode& node) {
    Config config = node.config;
    const size_t position = input_count_++;
    const Config* shape = config.find("batch_shape");
    if (shape == nullptr || !shape->is_array() || shape->as_array().empty()) return config;
    Config::Array dims = shape->as_array();
    const bool open =
        std::any_of(dims.begin() + 1, dims.end(), [](const Config& dim) { return dim.is_null(); });
    if (position >= shapes_.size()) {
      if (open) refuse_open_shape(node.name, *shape);
      return config;
    }
    const std::vector<int64_t>& given = shapes_[position];
    if (given.size() + 1 != dims.size()) {
      source_.refuse(
          node.name,
          fmt::format("--input-shape with {} sizes, as in {}", dims.size() - 1, shape->to_json()),
          std::to_string(given.size()));
    }
    for (size_t i = 0; i < given.size(); ++i) {
      if (!dims[i + 1].is_null() && dims[i + 1] != Config(given[i])) {
        source_.refuse(node.name, "sizes as in " + shape->to_json(), std::to_string(given[i]));
      }
      dims[i + 1] = given[i];
    }
    config.set("batch_shape", std::move(dims));
    return config;
  }

  [[noreturn]] void refuse_open_shape(const std::string& name, const Config& shape) const {
    std::string example;
    for (size_t i = 1; i < shape.as_array().size(); ++i) {
      const Config& dim = shape.as_array()[i];
      example += (i == 1 ? "" : ",") + (dim.is_int() ? std::to_string(dim.as_int()) : "64");
    }
    source_.refuse(name, "an input shape with every size but the batch", shape.to_json(),
                   "Say the sizes, for example --input-shape " + example + ".");
  }

  // A Sequential that starts with another layer says its input there, or beside its layers.
  void add_sequential_input(ModelTree& tree) const {
    if (!tree.nodes.empty() && is_input(tree.nodes.front())) return;
    Config shape = tree.nodes.empty() ? Config() : shape_of_first(tree.nodes.front());
    if (shape.is_null()) shape = tree.input_structure;  // "build_input_shape"
    if (!shape.is_array()) {
      source_.refuse(tree.name, "the shape of the model's input", "none",
                     "Add keras.Input(shape) as its first layer and save it again.");
    }
    TreeNode input;
    input.name = "input_layer";
    const auto taken = [&] {
      return std::any_of(tree.nodes.begin(), tree.nodes.end(),
                         [&](const TreeNode& node) { return node.name == input.name; });
    };
    for (int i = 1; taken(); ++i) input.name = fmt::format("input_layer_{}", i);
    input.class_name = layers::kInputLayer;
    input.module = "keras.layers";
    input.config = Config::Object{{"batch_shape", std::move(shape)}};
    if (!tree.nodes.empty() && reads_numbers(tree.nodes.front())) {
      input.config.set("dtype", "int32");
    }
    if (!tree.nodes.empty() && layers::layer_traits(tree.nodes.front().class_name).looks_up) {
      const bool integers = tree.nodes.front().config.find("vocabulary_dtype") != nullptr;
      input.config.set("dtype", integers ? "int64" : "string");
    }
    input.config.set("name", input.name);
    tree.nodes.insert(tree.nodes.begin(), std::move(input));
  }

  // With the batch in front; null where the layer says none.
  static Config shape_of_first(const TreeNode& node) {
    if (node.model != nullptr) {
      const ModelTree& inner = *node.model;
      if (inner.nodes.empty()) return {};
      return shape_of_first(inner.sequential ? inner.nodes.front()
                                             : inner.nodes[inner.inputs.front().node]);
    }
    for (const std::string_view key : kShapeKeys) {
      const Config* value = node.config.find(key);
      if (value == nullptr || value->is_null()) continue;
      if (key.starts_with("batch")) return *value;
      // Where it bounds numbers, no dimension has that size.
      if (key == "input_dim" && reads_numbers(node)) continue;
      Config::Array dims = {Config()};
      if (value->is_array()) {
        dims.insert(dims.end(), value->as_array().begin(), value->as_array().end());
      } else {
        dims.push_back(*value);
      }
      return dims;
    }
    return {};
  }

  void run_top(Level& level) {
    std::vector<Tensor> inputs;
    if (level.tree.sequential) {
      inputs.push_back(model_.call(level.layers.front(), {})[0]);
      const std::vector<Tensor> outputs = run_sequential(level, inputs);
      const std::string& last = level.tree.nodes.back().name;
      model_.set_outputs(outputs, std::vector<std::string>(outputs.size(), last));
      return;
    }
    for (size_t i = 0; i < level.tree.nodes.size(); ++i) {
      if (is_input(level.tree.nodes[i])) model_.call(level.layers[i], {});
    }
    for (const TreeTensor& port : level.tree.inputs) inputs.push_back(input_tensor(level, port));
    const std::vector<Tensor> outputs = run_functional(level, inputs);
    std::vector<std::string> names;
    for (const TreeTensor& port : level.tree.outputs) {
      names.push_back(level.tree.nodes[port.node].name);
    }
    model_.set_inputs(inputs);
    model_.set_outputs(outputs, names);
  }

  Tensor input_tensor(const Level& level, const TreeTensor& port) const {
    const TreeNode& node = level.tree.nodes[port.node];
    if (!is_input(node)) {
      source_.refuse(level.tree.name, "InputLayers as inputs",
                     node.name + " (" + node.class_name + ")");
    }
    for (size_t i = 0; i < model_.calls().size(); ++i) {
      if (model_.calls()[i].layer == level.layers[port.node]) return {layers::CallId(i), 0};
    }
    PLIMSOLL_CHECK(false, node.name + " was not called");
  }

  std::vector<Tensor> run(Level& level, const std::vector<Tensor>& inputs) {
    if (!level.tree.sequential) return run_functional(level, inputs);
    return run_sequential(level, inputs);
  }

  std::vector<Tensor> run_sequential(Level& level, std::vector<Tensor> values) {
    for (size_t i = 0; i < level.tree.nodes.size(); ++i) {
      if (is_input(level.tree.nodes[i])) continue;
      TreeCall plain;
      plain.inputs.resize(values.size());
      values = call_node(level, i, plain, values);
      if (values.size() != 1 && i + 1 < level.tree.nodes.size()) {
        source_.refuse(level.tree.nodes[i].name, "one output inside a Sequential",
                       std::to_string(values.size()));
      }
    }
    return values;
  }

  std::vector<Tensor> run_functional(Level& level, const std::vector<Tensor>& inputs) {
    ModelTree& tree = level.tree;
    if (inputs.size() != tree.inputs.size()) {
      source_.refuse(tree.name, fmt::format("{} inputs", tree.inputs.size()),
                     std::to_string(inputs.size()));
    }
    std::vector<std::vector<std::vector<Tensor>>> values(tree.nodes.size());
    for (size_t i = 0; i < tree.nodes.size(); ++i) values[i].resize(tree.nodes[i].calls.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      values[tree.inputs[i].node][tree.inputs[i].call] = {inputs[i]};
    }
    const auto find = [&](const TreeTensor& name, const std::string& user) {
      const std::vector<Tensor>& outputs = values[name.node][name.call];
      if (static_cast<size_t>(name.output) >= outputs.size()) {
        source_.refuse(
            user,
            fmt::format("one of the {} outputs of {}", outputs.size(), tree.nodes[name.node].name),
            fmt::format("output {}", name.output));
      }
      return outputs[static_cast<size_t>(name.output)];
    };
    for (const TreeStep& step : level.steps) {
      TreeNode& node = tree.nodes[step.node];
      std::vector<Tensor>& made = values[step.node][step.call];
      TreeCall& call = node.calls[step.call];
      if (!is_input(node)) {
        std::vector<Tensor> operands;
        for (const TreeTensor& input : call.inputs) operands.push_back(find(input, node.name));
        made = call_node(level, step.node, call, operands);
      }
      if (call.output_types.empty()) {
        for (const Tensor output : made) call.output_types.push_back(model_.type(output));
      }
    }
    std::vector<Tensor> outputs;
    for (const TreeTensor& port : tree.outputs) outputs.push_back(find(port, "output_layers"));
    return outputs;
  }

  std::vector<Tensor> call_node(Level& level, size_t index, const TreeCall& call,
                                const std::vector<Tensor>& inputs) {
    if (level.models[index] != nullptr) {
      if (++depth_ > kMaxNesting) source_.refuse(level.tree.name, "fewer nested models", "more");
      std::vector<Tensor> outputs =
          run(*level.models[index], model_inputs(level, index, call, inputs));
      --depth_;
      return outputs;
    }
    const TreeNode& node = level.tree.nodes[index];
    if (model_.calls().size() >= kMaxCalls) {
      source_.refuse(node.name, fmt::format("at most {} calls of layers", kMaxCalls),
                     "more, once shared models are written out");
    }
    const LayerId id = level.layers[index];
    std::vector<Tensor> outputs = with_context("while reading " + source_.origin(), [&] {
      return model_.call(id, inputs, arguments_of(node, call));
    });
    source_.check_sizes(model_, id, model_.calls().back().output_types);
    return outputs;
  }

  // The inputs of a call on a model; a mask that the call gives by name is put on them.
  std::vector<Tensor> model_inputs(const Level& level, size_t index, const TreeCall& call,
                                   const std::vector<Tensor>& inputs) {
    const ModelTree& tree = level.models[index]->tree;
    const Config* mask = call.kwargs.is_object() ? call.kwargs.find("mask") : nullptr;
    if (mask == nullptr) return arranged(tree, call, inputs);
    const Config::Array masks = mask->is_array() ? mask->as_array() : Config::Array{*mask};
    size_t given = 0;
    for (const Config& one : masks) given += one.find("tensor") != nullptr ? 1 : 0;
    const size_t count = inputs.size() - given;
    const size_t expected = tree.sequential ? 1 : tree.inputs.size();
    if (masks.size() != count || count != expected) {
      source_.refuse(level.tree.nodes[index].name, "a mask for each input of the model",
                     excerpt(*mask), "Build the model without this argument and save it again.");
    }
    std::vector<Tensor> masked(inputs.begin(), inputs.begin() + static_cast<int64_t>(count));
    for (size_t i = 0; i < count; ++i) {
      const Config* tensor = masks[i].find("tensor");
      if (tensor == nullptr) continue;
      const Config config = Config::Object{{"operation", "WithMask"}};
      const LayerId id = with_context("while reading " + source_.origin(),
                                      [&] { return model_.add_layer(layers::kOperation, config); });
      masked[i] = model_.call(id, {masked[i], inputs[static_cast<size_t>(tensor->as_int())]})[0];
    }
    return arranged(tree, call, masked);
  }

  // What a flat call says beyond its inputs. Whether a step trains is the step's to say: Keras 3
  // lets it overrule what a model was built with.
  Config arguments_of(const TreeNode& node, const TreeCall& call) const {
    if (!call.args.is_array()) return {};  // in a Sequential
    Config kwargs{Config::Object{}};
    for (const auto& [key, value] : call.kwargs.as_object()) {
      if (key != "training") kwargs.set(key, value);
    }
    const CallForm form = layers::layer_traits(node.class_name).calls;
    const bool masked = form == CallForm::kWithMask && is_plain_but_for_mask(call);
    const bool more = is_operator(node) || masked || form == CallForm::kWithMore;
    const bool plain = is_plain(call);
    if (plain && kwargs.as_object().empty() && !is_operator(node)) return {};
    if (!more && !kwargs.as_object().empty()) {
      const auto& [key, value] = kwargs.as_object().front();
      source_.refuse(node.name, "a call without arguments", key + "=" + excerpt(value),
                     "Build the model without this argument and save it again.");
    }
    if (!more && !plain) {
      source_.refuse(node.name, "tensors of other layers as inputs: one, or one list of them",
                     excerpt(call.args),
                     "A constant or a further argument is nothing that this layer takes.");
    }
    return Config::Object{{"args", call.args}, {"kwargs", std::move(kwargs)}};
  }

  static ModelTree finish(Level& level) {
    for (size_t i = 0; i < level.models.size(); ++i) {
      if (level.models[i] == nullptr) continue;
      level.tree.nodes[i].model = std::make_shared<const ModelTree>(finish(*level.models[i]));
    }
    return std::move(level.tree);
  }

  const InputShapes& shapes_;
  const JsonSource& source_;
  Model model_;
  std::map<size_t, Config> lookups_;  // by the top model's inputs
  size_t input_count_ = 0;
  int depth_ = 0;
};

}  // namespace

namespace {

// Whether a call leaves something for the next one: by what it is, wraps or has inside.
bool keeps_state(std::string_view class_name, const Config& config, int depth = 0) {
  const Config* stateful = config.find("stateful");
  if (layers::layer_traits(class_name).keeps_state) {
    return stateful == nullptr || *stateful == Config(true);
  }
  const Config* inner = config.find("layer");
  if (inner == nullptr || !inner->is_object() || depth > kMaxNesting) return false;
  const Config* name = inner->find("class_name");
  const Config* inside = inner->find("config");
  return name != nullptr && name->is_string() && inside != nullptr && inside->is_object() &&
         keeps_state(name->as_string(), *inside, depth + 1);
}

bool keeps_state(const TreeNode& node) {
  if (node.model == nullptr) return keeps_state(node.class_name, node.config);
  return std::ranges::any_of(node.model->nodes,
                             [](const TreeNode& inner) { return keeps_state(inner); });
}

// Whether it matters who of several calls comes first: one layer's whose state goes from call to
// call, or others' where attention takes masks off the values that it is called on.
bool order_matters(const ModelTree& tree) {
  return std::ranges::any_of(tree.nodes, [](const TreeNode& node) {
    return layers::layer_traits(node.class_name).takes_masks_off ||
           (node.calls.size() > 1 && keeps_state(node));
  });
}

// When each call comes among those that could be made: as Keras runs the model.
std::vector<size_t> turns(const ModelTree& tree, const std::vector<size_t>& first, size_t count) {
  std::vector<size_t> turn(count);
  for (size_t i = 0; i < count; ++i) turn[i] = count + i;
  size_t next = 0;
  for (const auto& [node, call] : keras_run_order(tree)) turn[first[node] + call] = next++;
  return turn;
}

}  // namespace

std::vector<TreeStep> tree_steps(const ModelTree& tree, const JsonSource& source) {
  std::vector<size_t> first;  // call of each node
  std::vector<TreeStep> calls;
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    first.push_back(calls.size());
    for (size_t k = 0; k < tree.nodes[i].calls.size(); ++k) calls.push_back({i, k});
  }
  const bool by_keras = order_matters(tree);
  std::vector<size_t> missing(calls.size(), 0);
  std::vector<std::vector<size_t>> waiting(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto await = [&](size_t needed) {
      ++missing[i];
      waiting[needed].push_back(i);
    };
    for (const TreeTensor& input : tree.nodes[calls[i].node].calls[calls[i].call].inputs) {
      await(first[input.node] + input.call);
    }
    if (!by_keras && calls[i].call > 0) await(i - 1);
  }
  std::vector<size_t> turn(calls.size());
  std::iota(turn.begin(), turn.end(), size_t{0});  // the file's order
  if (by_keras) turn = turns(tree, first, calls.size());
  const auto later = [&](size_t a, size_t b) { return turn[a] > turn[b]; };
  std::priority_queue<size_t, std::vector<size_t>, decltype(later)> ready(later);
  for (size_t i = 0; i < calls.size(); ++i) {
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<TreeStep> steps;
  while (!ready.empty()) {
    const size_t next = ready.top();
    ready.pop();
    steps.push_back(calls[next]);
    for (const size_t after : waiting[next]) {
      if (--missing[after] == 0) ready.push(after);
    }
  }
  for (size_t i = 0; steps.size() < calls.size() && i < calls.size(); ++i) {
    if (missing[i] == 0) continue;
    source.refuse(tree.nodes[calls[i].node].name, "a graph without cycles",
                  "a cycle through this layer or in front of it");
  }
  return steps;
}

Model expand_tree(ModelTree tree, const InputShapes& shapes, const JsonSource& source) {
  TreeExpander expander(tree, shapes, source);
  return expander.expand(std::move(tree));
}

}  // namespace plimsoll::formats
