#include "formats/keras_weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "codec/hdf5_reader.h"
#include "codec/hdf5_writer.h"
#include "formats/keras_tree.h"
#include "formats/stored_tensor.h"
#include "formats/tensor_copy.h"
#include "formats/weight_groups.h"

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

// Finds each tensor's dataset and checks it against what the model wants.
class WeightsFinder {
 public:
  explicit WeightsFinder(const codec::Hdf5Reader& file) : file_(file) {
    for (std::string& path : file.list_datasets("")) {
      std::string normal = normal_path(path);
      if (!datasets_.emplace(normal, std::move(path)).second) {
        refuse(normal, "one dataset of this name", "two");
      }
    }
  }

  void find_group(const WeightGroup& group) {
    const std::string vars = group.path + "/vars/";
    const int64_t count = count_below(vars);
    if (count != static_cast<int64_t>(group.weights.size())) {
      refuse(group.name, std::to_string(group.weights.size()) + " weights in " + vars,
             std::to_string(count), "The weights belong to another model.");
    }
    for (size_t i = 0; i < group.weights.size(); ++i) {
      take(vars + std::to_string(i), group.weights[i]);
    }
  }

  // Takes all variables; or, where the optimizer never made a step, the two that it always has.
  // Anything else is another optimizer's.
  void find_optimizer(const std::vector<TensorInfo>& variables) {
    if (variables.empty()) return;
    const std::string vars = "optimizer/vars/";
    const int64_t count = count_below(vars);
    const bool complete = count == static_cast<int64_t>(variables.size());
    if (!complete && count != 2 && count != 0) {
      log(LogLevel::kWarning, file_.name() + ": the optimizer's state is left out: expected " +
                                  std::to_string(variables.size()) + " variables, received " +
                                  std::to_string(count));
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      take(vars + std::to_string(i), variables[static_cast<size_t>(i)]);
    }
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
  [[noreturn]] void refuse(const std::string& where, const std::string& expected,
                           const std::string& received, std::string_view next_step = "") const {
    std::string message =
        file_.name() + ": [" + where + "] expected " + expected + ", received " + received + ".";
    if (!next_step.empty()) message += " " + std::string(next_step);
    throw Error(ErrorKind::kModel, message);
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
  std::map<std::string, std::string> datasets_;  // normal path → path
  std::set<std::string> taken_;                  // normal paths
  std::vector<StoredTensor> tensors_;
};

// The optimizer of a compile record, or nothing where it is none that can be used: that is said
// where it is used.
std::vector<TensorInfo> usable_optimizer(const std::optional<layers::CompileOptions>& compile,
                                         const std::vector<WeightGroup>& groups) {
  if (!compile || compile->optimizer.is_null()) return {};
  try {
    return optimizer_tensors(compile->optimizer, groups);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) throw;
    return {};
  }
}

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

  void add(const std::string& group, const std::string& name, const std::vector<TensorInfo>& infos,
           const std::vector<size_t>& positions) {
    const std::string vars = group.empty() ? "vars" : group + "/vars";
    tree.add_group(vars);
    tree.set_attribute(vars, "name", name);
    for (size_t i = 0; i < positions.size(); ++i) {
      tree.add_dataset(vars + "/" + std::to_string(i), infos[i].dtype, infos[i].shape);
      tensors.push_back(positions[i]);
    }
  }
};

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
  if (compile != nullptr && !compile->optimizer.is_null()) {
    const std::vector<TensorInfo> variables = optimizer_tensors(compile->optimizer, groups);
    const std::vector<size_t> positions = find_all(variables, state);
    if (!positions.empty()) layout.add("optimizer", "optimizer", variables, positions);
  }
  layout.add("", model.name(), {}, {});
  return layout;
}

}  // namespace

std::unique_ptr<TensorSource> open_weights(std::shared_ptr<const codec::ByteReader> file,
                                           const Model& model,
                                           const std::optional<layers::CompileOptions>& compile) {
  codec::Hdf5Reader reader(std::move(file));
  WeightsFinder finder(reader);
  const std::vector<WeightGroup> groups = archive_groups(model, keras_tree(model));
  for (const WeightGroup& group : groups) finder.find_group(group);
  finder.find_optimizer(usable_optimizer(compile, groups));
  finder.check_nothing_left();
  std::vector<StoredTensor> tensors = finder.take_tensors();
  return make_stored_source(std::move(reader), std::move(tensors));
}

void write_weights(const Model& model, const layers::CompileOptions* compile, TensorSource& state,
                   codec::ByteSink& sink) {
  const WeightsLayout layout = lay_out(model, compile, state);
  codec::Hdf5Writer writer(layout.tree, sink);
  copy_tensors(state, layout.tensors, writer);
  writer.finish();
}

}  // namespace plimsoll::formats
