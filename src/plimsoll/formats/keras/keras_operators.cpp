#include "formats/keras/keras_operators.h"

#include <string>

namespace plimsoll::formats {

using layers::Config;

bool is_operator_module(std::string_view module) {
  for (const std::string_view prefix :
       {"keras.src.ops", "keras.ops", "keras.src.activations", "keras.activations"}) {
    if (module == prefix || (module.starts_with(prefix) && module[prefix.size()] == '.')) {
      return true;
    }
  }
  return false;
}

bool is_operator(const layers::TreeNode& node) {
  return node.model == nullptr && is_operator_module(node.module);
}

Config operator_config(const layers::TreeNode& node) {
  Config config = node.config;
  config.set("name", node.layer);
  config.set("operation", node.class_name);
  return config;
}

}  // namespace plimsoll::formats
