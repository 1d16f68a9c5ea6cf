#include "formats/keras/keras_weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/log.h"
#include "codec/hdf5/hdf5_reader.h"
#include "codec/hdf5/hdf5_writer.h"
#include "formats/keras/keras_lookups.h"
#include "formats/keras/keras_tree.h"
#include "formats/keras/weight_groups.h"
#include "formats/stored_tensor.h"
#include "formats/tensor_copy.h"
#include "layers/training/optimizers.h"

namespace plimsoll::formats {
namespace {

using layers::Model;

constexpr std::string_view kOldLayers = "_layer_checkpoint_dependencies";

// "layers\dense/vars/0" and "_layer_checkpoint_dependencies/dense/vars/0" as "layers/dense/vars/0".
std::string normal_path(std::string path) {
  std::replace(path.begin(), path.end(), '\\', '/');
  for (size_t at = path.find(kOldLayers); at != std::string::npos; at = path.find(kOldLayers)) {
    path.replace(at, kOldLayers.size(), "layers");
  }
  return path;
}

// Where the weights of a group's words lie: a TextVectorization has a StringLookup inside of it.
std::vector<std::string> places_of_weights(const WeightGroup& group) {
  if (group.weighs == nullptr) return {};
  std::vector<std::string> places = {fmt::format("{}/vars/{}", group.path, kWeightsOfWords)};
  if (group.weighs->kind == InputLookup::Kind::kText) {
    places.push_back(fmt::format("{}/_lookup_layer/vars/{}", group.path, kWeightsOfWords));
  }
  return places;
}

// Finds each tensor's dataset and checks it against what the model wants.
class WeightsFinder {
 public:
  explicit WeightsFinder(const codec::Hdf5Reader& file) : file_(file) {
    for (std::string& path : file.list_datasets("")) {
      has_old_layers_ = has_old_layers_ || path.starts_with(kOldLayers);
      std::string normal = normal_path(path);
      if (!datasets_.emplace(normal, std::move(path)).second) {
        refuse(normal, "one dataset of this name", "two");
      }
    }
  }

  // The model's groups, numbered as this file numbers them.
  std::vector<WeightGroup> groups_of(const Model& model) const {
    const layers::ModelTree tree = keras_tree(model);
    std::vector<WeightGroup> groups = archive_groups(model, tree);
    if (!has_old_layers_ || has_all(groups)) return groups;
    std::vector<WeightGroup> twice = archive_groups(model, tree, GroupCount::kTwiceWithWeights);
    return has_all(twice) ? twice : groups;
  }

  void find_group(const WeightGroup& group) {
    const std::string vars = group.path + "/vars/";
    const int64_t count = weights_in(group);
    for (std::string& place : places_of_weights(group)) taken_.insert(std::move(place));
    if (count != static_cast<int64_t>(group.weights.size())) {
      refuse(group.name, fmt::format("{} weights in {}", group.weights.size(), vars),
             std::to_string(count), "The weights belong to another model.");
    }
    for (size_t i = 0; i < group.weights.size(); ++i) {
      if (i < group.repeated) {
        taken_.insert(fmt::format("{}{}", vars, i));
        continue;
      }
      take(fmt::format("{}{}", vars, i), group.weights[i]);
    }
  }

  // Takes all variables; or, where the optimizer never made a step, those that it always has.
  // Keras 2.11 to 2.15 listed no learning rate, and slots of SGD that it does not use. Anything
  // else is another optimizer's.
  void find_optimizer(std::vector<TensorInfo> variables, size_t trained) {
    if (variables.empty()) return;
    const std::string vars = "optimizer/vars/";
    const auto count = static_cast<size_t>(count_below(vars));
    leave_out_loss_scale(variables, vars, count);
    if (count > 1 && !is_scalar(vars + "1")) {
      std::erase_if(variables,
                    [](const TensorInfo& info) { return info.name == layers::kLearningRateState; });
    }
    const bool unused_slots = variables.size() == 1 && count == 1 + trained;
    const bool fresh = count <= most_fresh(variables) && count < variables.size();
    if (count == variables.size() || unused_slots || fresh) {
      const size_t before = tensors_.size();
      try {
        for (size_t i = 0; i < std::min(count, variables.size()); ++i) {
          take(fmt::format("{}{}", vars, i), variables[i]);
        }
        return;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kModel) throw;
        tensors_.erase(tensors_.begin() + static_cast<int64_t>(before), tensors_.end());
      }
    }
    log(LogLevel::kWarning,
        fmt::format("{}: the optimizer's state is left out: expected {} variables, received {}",
                    file_.name(), variables.size(), count));
  }

  // Weights below "layers/" that no layer asked for; seeds of random layers are none.
  void check_nothing_left() const {
    for (const auto& [normal, path] : datasets_) {
      if (!normal.starts_with("layers/") || normal.find("/seed_generator/") != std::string::npos) {
        continue;
      }
      if (!taken_.contains(normal)) {
        refuse(path, "weights of the model's layers only", "this one",
               "The weights belong to another model.");
      }
    }
  }

  std::vector<StoredTensor> take_tensors() { return std::move(tensors_); }

 private:
  static bool is_of_loss_scale(const TensorInfo& info) {
    return info.name.starts_with(layers::kLossScaleStates);
  }

  // A file of a model that was read back without a scale has none of its variables; one of an
  // optimizer that never made a step has those that any optimizer has.
  void leave_out_loss_scale(std::vector<TensorInfo>& variables, const std::string& vars,
                            size_t count) const {
    if (!is_of_loss_scale(variables.front())) return;
    const size_t scales = layers::loss_scale_states().size();
    const bool fresh =
        count > 2 && count <= scales && is_scalar(fmt::format("{}{}", vars, count - 1));
    if (!fresh && count > 2 && count + scales != variables.size()) return;
    const size_t kept = fresh ? layers::kLossScaleIdleStates : 0;
    variables.erase(variables.begin() + static_cast<std::ptrdiff_t>(kept),
                    variables.begin() + static_cast<std::ptrdiff_t>(scales));
  }

  // How many variables an optimizer has before its first step.
  static size_t most_fresh(const std::vector<TensorInfo>& variables) {
    return is_of_loss_scale(variables.front()) ? 2 + layers::kLossScaleIdleStates : 2;
  }

  bool has_all(const std::vector<WeightGroup>& groups) const {
    return std::ranges::all_of(groups, [&](const WeightGroup& group) {
      return weights_in(group) == static_cast<int64_t>(group.weights.size());
    });
  }

  [[noreturn]] void refuse(const std::string& where, const std::string& expected,
                           const std::string& received, std::string_view next_step = "") const {
    std::string message =
        file_.name() + ": [" + where + "] expected " + expected + ", received " + received + ".";
    if (!next_step.empty()) message += " " + std::string(next_step);
    throw Error(ErrorKind::kModel, message);
  }

  bool is_scalar(const std::string& normal) const {
    const auto found = datasets_.find(normal);
    return found != datasets_.end() && file_.open(found->second)->info().shape.empty();
  }

  // Weights of words, which the configuration has, are none.
  int64_t weights_in(const WeightGroup& group) const {
    const std::vector<std::string> places = places_of_weights(group);
    const bool named = !places.empty() && datasets_.contains(places.front());
    return count_below(group.path + "/vars/") - (named ? 1 : 0);
  }

  int64_t count_below(const std::string& prefix) const {
    int64_t count = 0;
    for (auto found = datasets_.lower_bound(prefix);
         found != datasets_.end() && found->first.starts_with(prefix); ++found) {
      ++count;
    }
    return count;
  }

  void take(const std::string& normal, const TensorInfo& info) {
    const auto found = datasets_.find(normal);
    if (found == datasets_.end()) refuse(info.name, "a dataset " + normal, "none");
    StoredTensor tensor{info, {{found->second}}};
    check_stored(file_, tensor);
    taken_.insert(normal);
    tensors_.push_back(std::move(tensor));
  }

  const codec::Hdf5Reader& file_;
  bool has_old_layers_ = false;
  std::map<std::string, std::string> datasets_;  // normal path → path
  std::set<std::string> taken_;                  // normal paths
  std::vector<StoredTensor> tensors_;
};

// Positions of the named tensors in `state`; empty where one is missing.
std::vector<size_t> find_all(const std::vector<TensorInfo>& wanted, const TensorSource& state) {
  std::map<std::string_view, size_t> known;
  for (size_t i = 0; i < state.tensors().size(); ++i) known[state.tensors()[i].name] = i;
  std::vector<size_t> found;
  for (const TensorInfo& info : wanted) {
    const auto position = known.find(info.name);
    if (position == known.end()) return {};
    const TensorInfo& held = state.tensors()[position->second];
    PLIMSOLL_CHECK(held == info, info.name + ": the state has another shape than the model");
    found.push_back(position->second);
  }
  return found;
}

// The layout of a file, and which tensor of the state each dataset is.
struct WeightsLayout {
  codec::Hdf5Tree tree;
  std::vector<size_t> tensors;
  std::vector<std::shared_ptr<const InputLookup>> weighing{};  // whose words' weights come last

  void add(const std::string& group, const std::string& name, const std::vector<TensorInfo>& infos,
           const std::vector<size_t>& positions) {
    const std::string vars = group.empty() ? "vars" : group + "/vars";
    tree.add_group(vars);
    tree.set_attribute(vars, "name", name);
    for (size_t i = 0; i < positions.size(); ++i) {
      tree.add_dataset(fmt::format("{}/{}", vars, i), infos[i].dtype, infos[i].shape);
      tensors.push_back(positions[i]);
    }
  }
  void add_optimizer(const std::vector<TensorInfo>& variables,
                     const std::vector<size_t>& positions);
  void add_weights_of_words(const WeightGroup& group);
};

void WeightsLayout::add_weights_of_words(const WeightGroup& group) {
  for (const std::string& place : places_of_weights(group)) {
    tree.add_dataset(place, DType::kFloat32, std::vector<int64_t>{group.weighs->depth});
    weighing.push_back(group.weighs);
  }
}

// Keras reads an optimizer inside of one that scales losses from a group of its own, too.
void WeightsLayout::add_optimizer(const std::vector<TensorInfo>& variables,
                                  const std::vector<size_t>& positions) {
  add("optimizer", "optimizer", variables, positions);
  if (!variables.front().name.starts_with(layers::kLossScaleStates)) return;
  const auto own = static_cast<std::ptrdiff_t>(layers::loss_scale_states().size());
  add("optimizer/inner_optimizer", "inner_optimizer", {variables.begin() + own, variables.end()},
      {positions.begin() + own, positions.end()});
}

WeightsLayout lay_out(const Model& model, const layers::CompileOptions* compile,
                      const TensorSource& state) {
  WeightsLayout layout;
  const std::vector<WeightGroup> groups = archive_groups(model, keras_tree(model));
  for (const WeightGroup& group : groups) {
    const std::vector<size_t> positions = find_all(group.weights, state);
    PLIMSOLL_CHECK(positions.size() == group.weights.size(),
                   group.name + ": the state lacks weights");
    layout.add(group.path, group.name, group.weights, positions);
  }
  if (compile != nullptr) {
    const std::vector<TensorInfo> variables = known_optimizer_tensors(compile->optimizer, groups);
    const std::vector<size_t> positions = find_all(variables, state);
    if (!positions.empty()) layout.add_optimizer(variables, positions);
  }
  layout.add("", model.name(), {}, {});
  for (const WeightGroup& group : groups) {
    if (group.weighs != nullptr) layout.add_weights_of_words(group);
  }
  return layout;
}

}  // namespace

std::unique_ptr<TensorSource> open_weights(std::shared_ptr<const codec::ByteReader> file,
                                           const Model& model,
                                           const std::optional<layers::CompileOptions>& compile) {
  codec::Hdf5Reader reader(std::move(file));
  WeightsFinder finder(reader);
  const std::vector<WeightGroup> groups = finder.groups_of(model);
  size_t trained = 0;
  for (const WeightGroup& group : groups) {
    finder.find_group(group);
    trained += static_cast<size_t>(std::ranges::count(group.trainable, true));
  }
  if (compile) {
    finder.find_optimizer(known_optimizer_tensors(compile->optimizer, groups), trained);
  }
  finder.check_nothing_left();
  std::vector<StoredTensor> tensors = finder.take_tensors();
  return make_stored_source(std::move(reader), std::move(tensors));
}

void write_weights(const Model& model, const layers::CompileOptions* compile, TensorSource& state,
                   codec::ByteSink& sink) {
  const WeightsLayout layout = lay_out(model, compile, state);
  codec::Hdf5Writer writer(layout.tree, sink);
  copy_tensors(state, layout.tensors, writer);
  for (const auto& lookup : layout.weighing) {
    std::vector<float> weights = lookup->weights;
    weights.resize(static_cast<size_t>(lookup->depth));
    writer.write(std::as_bytes(std::span(weights)));
  }
  writer.finish();
}

}  // namespace plimsoll::formats
