#include "formats/keras/weight_groups.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "formats/keras/keras_order.h"
#include "layers/model/layer_traits.h"
#include "layers/training/optimizers.h"

namespace plimsoll::formats {
namespace {

using layers::LayerId;
using layers::Model;
using layers::ModelTree;
using layers::TreeNode;

// Flat layers by name.
using LayerIndex = std::map<std::string, LayerId, std::less<>>;

LayerIndex index_layers(const Model& model) {
  LayerIndex index;
  for (size_t i = 0; i < model.layer_count(); ++i) {
    index.emplace(model.layer(LayerId(i)).name(), LayerId(i));
  }
  return index;
}

// "forward_layer/cell" of "forward_layer/cell/kernel"; empty where the layer owns it itself.
std::string owner_of(const std::string& weight) {
  const size_t slash = weight.rfind('/');
  return slash == std::string::npos ? "" : weight.substr(0, slash);
}

TensorInfo info_of(const layers::Layer& layer, const layers::Weight& weight) {
  return {layer.name() + "/" + weight.name, DType::kFloat32, weight.shape};
}

class ArchiveGroups {
 public:
  ArchiveGroups(const Model& model, GroupCount count)
      : model_(model), layers_(index_layers(model)), count_(count) {
    for (const layers::ModelPort& port : model.inputs()) {
      const LayerId input = model.calls()[port.tensor.call.index()].layer;
      const auto lookup = model.layer(input).input_lookup();
      if (lookup != nullptr && !lookup->weights.empty()) weighing_[lookup->layer] = lookup;
    }
  }

  std::vector<WeightGroup> find(const ModelTree& tree) {
    walk(tree, "");
    return std::move(groups_);
  }

 private:
  void walk(const ModelTree& tree, const std::string& base) {
    const KerasOrder order = keras_order(tree);
    std::vector<bool> twice;
    if (count_ == GroupCount::kTwiceWithWeights) {
      for (const TreeNode& node : tree.nodes) twice.push_back(has_weights(node));
    }
    const std::vector<std::string> paths = weight_groups(tree, order, twice);
    for (size_t i = 0; i < order.nodes.size(); ++i) {
      const TreeNode& node = tree.nodes[order.nodes[i]];
      if (paths[i].empty()) continue;
      if (node.model != nullptr) {
        groups_.push_back({node.name, base + paths[i], {}, {}});
        walk(*node.model, base + paths[i] + "/");
      } else if (node.layer.empty()) {
        groups_.push_back({node.name, base + paths[i], {}, {}});
      } else {
        add_layer(node, base + paths[i]);
      }
    }
  }

  bool has_weights(const TreeNode& node) const {
    if (node.model != nullptr) {
      return std::ranges::any_of(node.model->nodes,
                                 [&](const TreeNode& inner) { return has_weights(inner); });
    }
    const auto found = layers_.find(node.layer);
    return found != layers_.end() && !model_.weights(found->second).empty();
  }

  // The layer's own group, and one for each of its objects that own weights.
  void add_layer(const TreeNode& node, const std::string& path) {
    const LayerId id = layers_.at(node.layer);
    const layers::Layer& layer = model_.layer(id);
    groups_.push_back({node.name, path, {}, {}});
    const size_t own = groups_.size() - 1;
    const auto weighs = weighing_.find(node.layer);
    if (weighs != weighing_.end()) groups_[own].weighs = weighs->second;
    for (const layers::Weight& weight : model_.weights(id)) {
      const std::string owner = owner_of(weight.name);
      const std::string where = owner.empty() ? path : path + "/" + owner;
      size_t at = own;
      while (at < groups_.size() && groups_[at].path != where) ++at;
      if (at == groups_.size()) {
        groups_.push_back({owner.substr(owner.rfind('/') + 1), where, {}, {}});
      }
      groups_[at].weights.push_back(info_of(layer, weight));
      groups_[at].trainable.push_back(weight.trainable && layer.trainable());
    }
    if (layers::layer_traits(layer.class_name()).lists_inner_kernel) {
      repeat_kernel(layer, model_.weights(id), groups_[own]);
    }
  }

  static void repeat_kernel(const layers::Layer& layer, const std::vector<layers::Weight>& weights,
                            WeightGroup& own) {
    for (const char* name : {"layer/kernel", "layer/embeddings"}) {
      const auto kernel = std::ranges::find(weights, name, &layers::Weight::name);
      if (kernel == weights.end()) continue;
      own.weights.insert(own.weights.begin(), info_of(layer, *kernel));
      own.trainable.insert(own.trainable.begin(), false);
      own.repeated = 1;
      return;
    }
  }

  const Model& model_;
  LayerIndex layers_;
  std::map<std::string_view, std::shared_ptr<const InputLookup>> weighing_;  // by layer
  GroupCount count_;
  std::vector<WeightGroup> groups_;
};

// Weights that are trained, and others, in the order of a list.
struct Split {
  std::vector<TensorInfo> trained;
  std::vector<TensorInfo> other;
  std::vector<TensorInfo> all;  // by layer

  void add(const Split& part) {
    trained.insert(trained.end(), part.trained.begin(), part.trained.end());
    other.insert(other.end(), part.other.begin(), part.other.end());
    all.insert(all.end(), part.all.begin(), part.all.end());
  }
};

class LayerLists {
 public:
  LayerLists(const Model& model, ListOrder order, int keras_major)
      : model_(model), layers_(index_layers(model)), order_(order), keras_major_(keras_major) {}

  std::vector<LayerWeights> find(const ModelTree& tree) const {
    std::vector<LayerWeights> lists;
    for (const size_t index : nodes_of(tree)) {
      const TreeNode& node = tree.nodes[index];
      const Split split = split_node(node);
      LayerWeights list{node.name, node.class_name, node.config, split.trained};
      list.weights.insert(list.weights.end(), split.other.begin(), split.other.end());
      lists.push_back(std::move(list));
    }
    return lists;
  }

 private:
  std::vector<size_t> nodes_of(const ModelTree& tree) const {
    if (order_ == ListOrder::kKeras) return keras_order(tree).nodes;
    std::vector<size_t> nodes;
    for (size_t i = 0; i < tree.nodes.size(); ++i) nodes.push_back(i);
    return nodes;
  }

  Split split_node(const TreeNode& node) const {
    Split split;
    if (node.model != nullptr) {
      for (const size_t index : nodes_of(*node.model)) {
        split.add(split_node(node.model->nodes[index]));
      }
      if (!node.model->trainable) freeze(split);
      return split;
    }
    const auto found = layers_.find(node.layer);
    if (found == layers_.end()) return split;
    const layers::Layer& layer = model_.layer(found->second);
    const layers::Config* flag = node.config.find("trainable");
    const bool trainable = flag == nullptr || !flag->is_bool() || flag->as_bool();
    for (const layers::Weight& weight : model_.weights(found->second)) {
      split.all.push_back(info_of(layer, weight));
      (weight.trainable ? split.trained : split.other).push_back(split.all.back());
    }
    if (!trainable) freeze(split);
    return split;
  }

  void freeze(Split& split) const {
    if (keras_major_ >= 3) {
      split.other = split.all;
    } else {
      split.other.insert(split.other.begin(), split.trained.begin(), split.trained.end());
    }
    split.trained.clear();
  }

  const Model& model_;
  LayerIndex layers_;
  ListOrder order_;
  int keras_major_;
};

}  // namespace

std::vector<WeightGroup> archive_groups(const Model& model, const ModelTree& tree,
                                        GroupCount count) {
  return ArchiveGroups(model, count).find(tree);
}

std::vector<LayerWeights> layer_weights(const Model& model, const ModelTree& tree, ListOrder order,
                                        int keras_major) {
  return LayerLists(model, order, keras_major).find(tree);
}

std::vector<TensorInfo> optimizer_tensors(const layers::Config& config,
                                          const std::vector<WeightGroup>& groups) {
  std::vector<TensorInfo> trained;
  for (const WeightGroup& group : groups) {
    for (size_t i = 0; i < group.weights.size(); ++i) {
      if (group.trainable[i]) trained.push_back(group.weights[i]);
    }
  }
  return layers::optimizer_states(layers::read_optimizer(config), trained);
}

std::vector<TensorInfo> known_optimizer_tensors(const layers::Config& optimizer,
                                                const std::vector<WeightGroup>& groups) {
  if (optimizer.is_null()) return {};
  try {
    return optimizer_tensors(optimizer, groups);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) throw;
    return {};
  }
}

}  // namespace plimsoll::formats
