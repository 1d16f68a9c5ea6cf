#pragma once

// Changes keys of a configuration in place. Internal to formats.

#include <string>
#include <string_view>
#include <utility>

#include "layers/config/config.h"

namespace plimsoll::formats {

class ConfigEdit {
 public:
  // `config` is an object, and is written back when this goes.
  explicit ConfigEdit(layers::Config& config) : config_(config), object_(config.as_object()) {}
  ConfigEdit(const ConfigEdit&) = delete;
  ConfigEdit& operator=(const ConfigEdit&) = delete;
  ~ConfigEdit() { config_ = layers::Config(std::move(object_)); }

  layers::Config* find(std::string_view key);
  const layers::Config* find(std::string_view key) const;
  bool has(std::string_view key) { return find(key) != nullptr; }
  void set(std::string_view key, layers::Config value);
  // Keeps the position. A key that is there already wins over the old name.
  void rename(std::string_view from, std::string_view to);
  // Takes a key out; null where it is absent.
  layers::Config take(std::string_view key);

 private:
  layers::Config& config_;
  layers::Config::Object object_;
};

}  // namespace plimsoll::formats
