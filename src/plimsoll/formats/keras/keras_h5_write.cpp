#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "codec/hdf5/hdf5_writer.h"
#include "formats/json_text.h"
#include "formats/keras/keras_compile.h"
#include "formats/keras/keras_h5.h"
#include "formats/keras/keras_json.h"
#include "formats/keras/keras_tree.h"
#include "formats/keras/keras_version.h"
#include "formats/keras/weight_groups.h"
#include "formats/self_test_file.h"
#include "formats/tensor_copy.h"
#include "layers/training/batch_norm_groups.h"
#include "layers/training/losses.h"

namespace plimsoll::formats {
namespace {

using layers::Config;
using layers::Model;

// Sets a list of names, cut into name0, name1, … where one attribute would be too long, as Keras
// does.
void set_names(codec::Hdf5Tree& tree, const std::string& path, const std::string& attribute,
               const std::vector<std::string>& names) {
  size_t longest = 1;
  for (const std::string& name : names) longest = std::max(longest, name.size());
  const size_t most = static_cast<size_t>(codec::kMaxHdf5AttributeBytes) / longest;
  if (names.size() <= most) {
    if (!names.empty()) tree.set_attribute(path, attribute, names);
    return;
  }
  for (size_t begin = 0, chunk = 0; begin < names.size(); begin += most, ++chunk) {
    const size_t end = std::min(begin + most, names.size());
    tree.set_attribute(path, fmt::format("{}{}", attribute, chunk),
                       std::vector<std::string>(names.begin() + static_cast<int64_t>(begin),
                                                names.begin() + static_cast<int64_t>(end)));
  }
}

// Keras's reader of HDF5 takes a short name of a loss ("mse") for a metric's, and fails.
layers::CompileOptions with_long_names(layers::CompileOptions compile) {
  for (Config& loss : compile.losses) {
    if (loss.is_string()) loss = layers::loss_name(loss.as_string());
  }
  return compile;
}

class H5Layout {
 public:
  explicit H5Layout(const TensorSource& state) : state_(state) {
    for (size_t i = 0; i < state.tensors().size(); ++i) positions_[state.tensors()[i].name] = i;
  }

  void add_architecture(const Model& model, const layers::CompileOptions* compile) {
    const Config json = write_architecture(model);
    // The top level is read by a part of Keras that knows no modules.
    Config config;
    config.set("class_name", json.at("class_name"));
    config.set("config", json.at("config"));
    tree_.set_attribute("", "keras_version", std::string(kKerasVersion));
    tree_.set_attribute("", "backend", std::string("tensorflow"));
    tree_.set_attribute("", "model_config", print_json(config, 0));
    if (compile == nullptr || compile->optimizer.is_null()) return;
    const Config written = write_compile(with_long_names(*compile), model);
    Config training;
    for (const char* key : {"loss", "metrics", "weighted_metrics", "loss_weights"}) {
      training.set(key, written.at(key));
    }
    training.set("optimizer_config", written.at("optimizer"));
    tree_.set_attribute("", "training_config", print_json(training, 0));
    if (compile->batch_norm_group > 0) {
      tree_.set_attribute("", std::string(kBatchNormKey),
                          layers::batch_norm_text(compile->batch_norm_group));
    }
  }

  void add_weights(const std::vector<LayerWeights>& layers) {
    const std::string base = "model_weights";
    tree_.add_group(base);
    std::vector<std::string> names;
    names.reserve(layers.size());
    for (const LayerWeights& layer : layers) names.push_back(layer.name);
    set_names(tree_, base, "layer_names", names);
    tree_.set_attribute(base, "backend", std::string("tensorflow"));
    tree_.set_attribute(base, "keras_version", std::string(kKerasVersion));
    for (const LayerWeights& layer : layers) add_group(base + "/" + layer.name, layer.weights);
    add_group(base + "/top_level_model_weights", {});
  }

  // Where the state has all of them.
  void add_optimizer(const std::vector<TensorInfo>& variables) {
    const bool complete = !variables.empty() && std::all_of(variables.begin(), variables.end(),
                                                            [&](const TensorInfo& info) {
                                                              return positions_.contains(info.name);
                                                            });
    if (complete) add_group("optimizer_weights", variables);
  }

  codec::Hdf5Tree& tree() { return tree_; }
  const std::vector<size_t>& tensors() const { return tensors_; }

 private:
  void add_group(const std::string& path, const std::vector<TensorInfo>& infos) {
    tree_.add_group(path);
    std::vector<std::string> names;
    for (const TensorInfo& info : infos) {
      const auto position = positions_.find(info.name);
      PLIMSOLL_CHECK(position != positions_.end(), info.name + ": the state lacks it");
      PLIMSOLL_CHECK(state_.tensors()[position->second] == info,
                     info.name + ": the state has another shape than the model");
      names.push_back(info.name);
      tree_.add_dataset(path + "/" + info.name, info.dtype, info.shape);
      tensors_.push_back(position->second);
    }
    set_names(tree_, path, "weight_names", names);
  }

  const TensorSource& state_;
  std::map<std::string, size_t> positions_;
  codec::Hdf5Tree tree_;
  std::vector<size_t> tensors_;  // of the state, in the order of the datasets
};

}  // namespace

void save_keras_h5(const std::string& path, const Model& model,
                   const layers::CompileOptions* compile, TensorSource& state,
                   TensorSource* self_test) {
  const layers::ModelTree tree = keras_tree(model);
  H5Layout layout(state);
  layout.add_architecture(model, compile);
  layout.add_weights(layer_weights(model, tree, ListOrder::kKeras, 3));
  if (compile != nullptr) {
    layout.add_optimizer(known_optimizer_tensors(compile->optimizer, archive_groups(model, tree)));
  }
  if (self_test != nullptr) add_self_test(layout.tree(), *self_test, kSelfTestGroup);
  AtomicFile file(path);
  codec::FileSink sink(file);
  codec::Hdf5Writer writer(layout.tree(), sink);
  copy_tensors(state, layout.tensors(), writer);
  if (self_test != nullptr) copy_tensors(*self_test, all_tensors(*self_test), writer);
  writer.finish();
  file.commit();
}

}  // namespace plimsoll::formats
