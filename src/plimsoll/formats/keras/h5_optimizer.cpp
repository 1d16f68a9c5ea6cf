#include "formats/keras/h5_optimizer.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/log.h"
#include "formats/keras/weight_groups.h"
#include "layers/training/optimizers.h"

namespace plimsoll::formats {
namespace {

constexpr std::string_view kGroup = "optimizer_weights";

struct SlotWord {
  std::string_view word;
  std::string_view slot;
};
// What older Keras calls the slots of an optimizer.
constexpr std::array kSlotWords = {
    SlotWord{"m", "momentum"},
    SlotWord{"v", "velocity"},
    SlotWord{"vhat", "velocity_hat"},
    SlotWord{"v_hat", "velocity_hat"},
    SlotWord{"momentum", "momentum"},
    SlotWord{"rms", "velocity"},
    SlotWord{"velocity", "velocity"},
    SlotWord{"mg", "average_gradient"},
    SlotWord{"u", "norm"},
    SlotWord{"accumulator", "accumulator"},
    SlotWord{"linear", "linear"},
    SlotWord{"accum_grad", "accumulated_grad"},
    SlotWord{"accum_var", "accumulated_delta_var"},
    SlotWord{"accumulated_grad", "accumulated_grad"},
    SlotWord{"accumulated_delta_var", "accumulated_delta_var"},
};

std::vector<std::string> words_of(std::string name) {
  if (name.ends_with(":0")) name.resize(name.size() - 2);
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    words.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string slot_of_word(std::string_view word) {
  for (const SlotWord& known : kSlotWords) {
    if (known.word == word) return std::string(known.slot);
  }
  return {};
}

bool is_counter(const std::vector<std::string>& words) { return words.back().starts_with("iter"); }
bool is_rate(const std::vector<std::string>& words) {
  return words.back() == "learning_rate" || words.back() == "current_learning_rate";
}

// The slot that a name tells: its last word, or the one after the optimizer's. Empty: none.
std::string slot_of(const std::vector<std::string>& words) {
  if (words.size() < 3) return {};
  const std::string last = slot_of_word(words.back());
  return last.empty() ? slot_of_word(words[1]) : last;
}

class OptimizerFinder {
 public:
  OptimizerFinder(const codec::Hdf5Reader& file, layers::Optimizer optimizer,
                  std::vector<TensorInfo> variables, std::vector<TensorInfo> trained)
      : file_(file),
        optimizer_(std::move(optimizer)),
        variables_(std::move(variables)),
        trained_(std::move(trained)) {}

  // Empty where the file's variables are not these.
  std::vector<StoredTensor> find(const std::vector<std::string>& names) {
    std::vector<std::string> rest;
    for (const std::string& name : take_loss_scale(names)) {
      const std::vector<std::string> words = words_of(name);
      if (is_counter(words)) {
        add({std::string(layers::kIterationState), DType::kInt64, {}}, name);
      } else if (is_rate(words)) {
        add({std::string(layers::kLearningRateState), DType::kFloat32, {}}, name);
      } else {
        rest.push_back(name);
      }
    }
    if (rest.empty() || is_unused_momentum(rest)) return std::move(tensors_);
    // Only Keras 3 has optimizers whose slots differ from weight to weight.
    const bool varied = optimizer_.muon || optimizer_.class_name == "Adafactor";
    const bool told = !varied && !slot_of(words_of(rest.front())).empty();
    const bool in_turn = has_rate_ || varied;
    const bool found = told ? by_word(rest) : (in_turn ? in_order(rest) : slot_by_slot(rest));
    if (!found) return {};
    for (const StoredTensor& tensor : tensors_) check_stored(file_, tensor);
    return std::move(tensors_);
  }

 private:
  // Names without those of a loss scale, which stand first; the variables without it, where the
  // file has none.
  std::span<const std::string> take_loss_scale(std::span<const std::string> names) {
    if (!optimizer_.loss_scale) return names;
    const std::vector<TensorInfo> own = layers::loss_scale_states();
    const bool has = names.size() > own.size() && names[2].ends_with("/step_counter") &&
                     names[3].ends_with("/dynamic_scale");
    if (!has) {
      variables_.erase(variables_.begin(), variables_.begin() + static_cast<ptrdiff_t>(own.size()));
      return names;
    }
    for (size_t i = 0; i < own.size(); ++i) add(own[i], names[i]);
    return names.subspan(own.size());
  }

  // What tf.keras from 2.11 kept for SGD without momentum, too.
  bool is_unused_momentum(const std::vector<std::string>& names) const {
    return optimizer_.slots.empty() && names.size() == trained_.size() &&
           std::ranges::all_of(names, [](const std::string& name) {
             return slot_of(words_of(name)) == "momentum";
           });
  }

  void add(TensorInfo info, const std::string& name) {
    has_rate_ = has_rate_ || info.name == layers::kLearningRateState;
    tensors_.push_back({std::move(info), {{std::string(kGroup) + "/" + name}}});
  }
  void add_slot(size_t weight, const std::string& slot, const std::string& name) {
    const TensorInfo& info = trained_[weight];
    add({layers::slot_state(info.name, slot), DType::kFloat32, info.shape}, name);
  }

  // The n-th variable of a slot is the n-th trained weight's.
  bool by_word(const std::vector<std::string>& names) {
    std::map<std::string, size_t> counts;
    for (const std::string& name : names) {
      const std::string slot = slot_of(words_of(name));
      const size_t weight = counts[slot]++;
      if (!is_slot(slot) || weight >= trained_.size()) return false;
      add_slot(weight, slot, name);
    }
    return names.size() == optimizer_.slots.size() * trained_.size();
  }

  bool is_slot(const std::string& slot) const {
    for (const std::string& known : optimizer_.slots) {
      if (known == slot) return true;
    }
    return false;
  }

  // Keras 3's order, after counter and learning rate.
  bool in_order(const std::vector<std::string>& names) {
    const size_t before = tensors_.size();
    if (variables_.size() != names.size() + before) return false;
    for (size_t i = 0; i < names.size(); ++i) add(variables_[i + before], names[i]);
    return true;
  }

  // Keras 1 and 2: one slot of all weights, then the next. Adam without amsgrad has a third that
  // holds nothing.
  bool slot_by_slot(const std::vector<std::string>& names) {
    const size_t count = trained_.size();
    const size_t slots = optimizer_.slots.size();
    const bool unused_third = slots == 2 && names.size() == 3 * count;
    if (names.size() != slots * count && !unused_third) return false;
    for (size_t slot = 0; slot < slots; ++slot) {
      for (size_t i = 0; i < count; ++i) {
        add_slot(i, optimizer_.slots[slot], names[slot * count + i]);
      }
    }
    return true;
  }

  const codec::Hdf5Reader& file_;
  layers::Optimizer optimizer_;
  std::vector<TensorInfo> variables_;  // Keras 3's list
  std::vector<TensorInfo> trained_;    // weights, in the file's order
  std::vector<StoredTensor> tensors_;
  bool has_rate_ = false;
};

std::vector<TensorInfo> trained_weights(const layers::Model& model, const layers::ModelTree& tree) {
  std::map<std::string, bool> trainable;
  for (const layers::ModelWeight& weight : model.all_weights()) {
    trainable[weight.name] = weight.trainable;
  }
  std::vector<TensorInfo> trained;
  for (const LayerWeights& layer : layer_weights(model, tree, ListOrder::kFile, 2)) {
    for (const TensorInfo& info : layer.weights) {
      if (trainable[info.name]) trained.push_back(info);
    }
  }
  return trained;
}

}  // namespace

std::vector<StoredTensor> find_h5_optimizer(const codec::Hdf5Reader& file,
                                            const layers::Model& model,
                                            const layers::ModelTree& tree,
                                            const std::optional<layers::CompileOptions>& compile) {
  if (!compile || compile->optimizer.is_null() || !file.is_group(kGroup)) return {};
  const auto names = file.texts_attribute(kGroup, "weight_names");
  if (!names || names->empty()) return {};
  try {
    layers::Optimizer optimizer = layers::read_optimizer(compile->optimizer);
    std::vector<TensorInfo> variables =
        optimizer_tensors(compile->optimizer, archive_groups(model, tree));
    OptimizerFinder finder(file, std::move(optimizer), std::move(variables),
                           trained_weights(model, tree));
    std::vector<StoredTensor> found = finder.find(*names);
    if (!found.empty()) return found;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) throw;
  }
  log(LogLevel::kWarning, fmt::format("{}: the optimizer's state is left out: its {} variables are "
                                      "not those of this optimizer and these weights.",
                                      file.name(), names->size()));
  return {};
}

}  // namespace plimsoll::formats
