#include <algorithm>
#include <set>
#include <string_view>

#include "base/format.h"
#include "base/suggest.h"
#include "formats/keras/keras_calls.h"
#include "formats/keras/keras_legacy.h"
#include "formats/keras/keras_tree.h"
#include "formats/keras/layer_names.h"
#include "formats/keras/tensorflow_functions.h"
#include "layers/config/names.h"

namespace plimsoll::formats {
namespace {

using layers::Config;
using layers::ModelTree;
using layers::TreeNode;

std::string name_of(const Config& config, std::string_view fallback) {
  const Config* name = config.find("name");
  return name != nullptr && name->is_string() ? name->as_string() : std::string(fallback);
}

bool flag_of(const Config& config, std::string_view key) {
  const Config* flag = config.find(key);
  return flag == nullptr || !flag->is_bool() || flag->as_bool();
}

class TreeReader {
 public:
  explicit TreeReader(const JsonSource& source) : source_(source) {}

  ModelTree read(const Config& json, int depth) {
    if (depth > kMaxNesting) {
      source_.refuse("", fmt::format("models inside models {} deep", kMaxNesting), "more");
    }
    if (json.is_string()) {
      source_.refuse("", "a JSON object", "JSON text inside a JSON string",
                     "It was dumped twice: write model.to_json() as it is.");
    }
    if (json.is_array()) return read_sequential(json, depth);
    const Config* class_name = json.find("class_name");
    if (class_name == nullptr) return read_bare(json, depth);
    const std::string name =
        class_name->is_string() ? class_name->as_string() : excerpt(*class_name);
    const Config* config = json.find("config");
    if (config == nullptr) source_.refuse(name, "a \"config\"", excerpt(json));
    if (name == "Sequential") return read_sequential(*config, depth);
    const bool has_graph =
        config->find("layers") != nullptr && config->find("input_layers") != nullptr;
    if (has_graph && (name == "Functional" || name == "Model")) {
      return read_functional(*config, depth);
    }
    source_.refuse("", "a Sequential or Functional model",
                   "the class " + name + (has_graph ? "" : ", whose file holds no graph of layers"),
                   "Its code is not in the file and would not be run: build the model as "
                   "keras.Sequential([…]) or keras.Model(inputs, outputs) and save that.");
  }

 private:
  ModelTree read_bare(const Config& json, int depth) {
    if (json.find("layers") == nullptr) {
      source_.refuse("", "a Keras model with \"class_name\" and \"config\"", excerpt(json));
    }
    return json.find("input_layers") != nullptr ? read_functional(json, depth)
                                                : read_sequential(json, depth);
  }

  // The entries of a list of layers, models among them read as trees of their own.
  std::vector<TreeNode> read_nodes(const Config::Array& list, int depth) {
    layer_count_ += static_cast<int64_t>(list.size());
    if (layer_count_ > kMaxLayers) {
      source_.refuse("layers", fmt::format("at most {} layers in all", kMaxLayers), "more");
    }
    const std::string ordering = common_ordering(list);
    std::vector<TreeNode> nodes;
    for (size_t i = 0; i < list.size(); ++i) {
      LayerEntry entry = source_.read_entry(list[i], i);
      TreeNode node;
      if (entry.kind == EntryKind::kModel) {
        node.model = std::make_shared<ModelTree>(read(list[i], depth + 1));
        if (entry.name.empty()) entry.name = node.model->name;
        if (entry.class_name == "Model") entry.class_name = "Functional";
        entry.config = Config(Config::Object{});
      } else if (entry.kind == EntryKind::kLayer) {
        modernize(entry, source_, ordering);
      }
      node.name = entry.name;
      node.class_name = entry.class_name;
      node.module = entry.module;
      node.config = std::move(entry.config);
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

  ModelTree read_sequential(const Config& config, int depth) {
    ModelTree tree;
    tree.name = name_of(config, "sequential");
    tree.sequential = true;
    tree.trainable = flag_of(config, "trainable");
    const Config* list = config.is_array() ? &config : config.find("layers");
    if (list == nullptr) {
      source_.refuse(tree.name, "a Sequential configuration with \"layers\"", excerpt(config));
    }
    tree.nodes = read_nodes(source_.layer_list(*list), depth);
    name_nodes(tree);
    if (const Config* shape = config.find("build_input_shape"); shape != nullptr) {
      tree.input_structure = *shape;
    }
    return tree;
  }

  void name_nodes(ModelTree& tree) const {
    LayerNames names;
    std::set<std::string> seen;
    for (const TreeNode& node : tree.nodes) {
      if (node.name.empty()) continue;
      names.add(node.name);
      if (!seen.insert(node.name).second) {
        source_.refuse(node.name, "a name of its own for each layer", "the same name twice");
      }
    }
    for (TreeNode& node : tree.nodes) {
      if (!node.name.empty()) continue;
      node.name = names.make(node.class_name);
      node.config.set("name", node.name);
    }
  }

  ModelTree read_functional(const Config& config, int depth) {
    ModelTree tree;
    tree.name = name_of(config, "functional");
    tree.trainable = flag_of(config, "trainable");
    const Config* list = config.find("layers");
    if (list == nullptr) {
      source_.refuse(tree.name, "a Functional configuration with \"layers\"", excerpt(config));
    }
    const Config::Array& entries = source_.layer_list(*list);
    tree.nodes = read_nodes(entries, depth);
    CallReader calls(tree, source_, tensor_count_);
    for (size_t i = 0; i < tree.nodes.size(); ++i) {
      if (tree.nodes[i].name.empty()) {
        source_.refuse(fmt::format("layer {}", i), "a layer with a name", "none");
      }
      calls.add_node(i, entries[i].find("inbound_nodes"));
    }
    calls.read(config.find("output_layers"));
    for (TreeNode& node : tree.nodes) {
      if (is_tensorflow_function(node.class_name)) translate_tensorflow_function(node, source_);
    }
    tree.input_structure =
        calls.read_ports(config.find("input_layers"), "input_layers", tree.inputs);
    tree.output_structure =
        calls.read_ports(config.find("output_layers"), "output_layers", tree.outputs);
    return tree;
  }

  const JsonSource& source_;
  int64_t layer_count_ = 0;
  int64_t tensor_count_ = 0;
};

}  // namespace

ModelTree read_tree(const Config& json, const JsonSource& source) {
  return TreeReader(source).read(json, 0);
}

}  // namespace plimsoll::formats
