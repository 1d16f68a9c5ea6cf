#pragma once

// What the readers of Sequential and Functional models share. Internal to formats.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/keras/keras_json.h"
#include "layers/config/config.h"
#include "layers/model/model.h"

namespace plimsoll::formats {

// What an entry of a model's list is.
enum class EntryKind : uint8_t { kLayer, kModel, kOperator };

// One entry of a model's list of layers, checked as far as its class allows.
struct LayerEntry {
  EntryKind kind = EntryKind::kLayer;
  std::string class_name;
  std::string module;     // "keras.layers" where the file gives none
  std::string name;       // empty where the file gives none (Sequential of Keras 2.0)
  layers::Config config;  // an object, or a list of layers (a Sequential of Keras 1)
};

// Where messages come from, and the checks that every layer passes.
class JsonSource {
 public:
  explicit JsonSource(const std::string& origin, const Assets* assets = nullptr)
      : origin_(origin), assets_(assets) {}
  const std::string& origin() const { return origin_; }
  // The text of a file beside the configuration, such as a layer's vocabulary; none: there is none.
  std::optional<std::string> asset(const std::string& path) const {
    return assets_ == nullptr ? std::nullopt : assets_->text(path);
  }
  std::optional<std::vector<float>> numbers(const std::string& path) const {
    return assets_ == nullptr ? std::nullopt : assets_->numbers(path);
  }

  // "<file>: [<where>] expected …, received …. <next step>"; `where` may be empty.
  [[noreturn]] void refuse(std::string_view where, const std::string& expected,
                           const std::string& received, std::string_view next_step = "") const;

  // The list "layers" of a model's configuration, at most kMaxLayers.
  const layers::Config::Array& layer_list(const layers::Config& list) const;
  // Refuses custom classes, foreign precisions and numbers beyond any sense. `position` names an
  // entry without a name.
  LayerEntry read_entry(const layers::Config& entry, size_t position) const;
  // Refuses a layer whose values or weights are too large to have a size.
  void check_sizes(const layers::Model& model, layers::LayerId layer,
                   const std::vector<layers::ValueType>& outputs) const;

 private:
  const std::string& origin_;
  const Assets* assets_;

  EntryKind check_origin_of_class(const layers::Config& entry, const LayerEntry& read) const;
  void check_precision(const LayerEntry& read) const;
  void check_numbers(const layers::Config& value, std::string_view key,
                     const std::string& where) const;
};

// A piece of JSON for a message: at most 80 characters.
std::string excerpt(const layers::Config& value);

// {"module": …, "class_name": …, "config": …, "registered_name": null}
layers::Config keras_object(std::string_view module, std::string_view class_name,
                            layers::Config config);

}  // namespace plimsoll::formats
