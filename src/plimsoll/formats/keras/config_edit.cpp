#include "formats/keras/config_edit.h"

#include <algorithm>

namespace plimsoll::formats {

using layers::Config;

Config* ConfigEdit::find(std::string_view key) {
  const auto found = std::find_if(object_.begin(), object_.end(),
                                  [&](const auto& item) { return item.first == key; });
  return found == object_.end() ? nullptr : &found->second;
}

const Config* ConfigEdit::find(std::string_view key) const {
  const auto found = std::find_if(object_.begin(), object_.end(),
                                  [&](const auto& item) { return item.first == key; });
  return found == object_.end() ? nullptr : &found->second;
}

void ConfigEdit::set(std::string_view key, Config value) {
  if (Config* old = find(key)) {
    *old = std::move(value);
  } else {
    object_.emplace_back(std::string(key), std::move(value));
  }
}

void ConfigEdit::rename(std::string_view from, std::string_view to) {
  if (!has(from)) return;
  if (has(to)) {
    take(from);
    return;
  }
  std::find_if(object_.begin(), object_.end(), [&](const auto& item) {
    return item.first == from;
  })->first = std::string(to);
}

Config ConfigEdit::take(std::string_view key) {
  const auto found = std::find_if(object_.begin(), object_.end(),
                                  [&](const auto& item) { return item.first == key; });
  if (found == object_.end()) return {};
  Config value = std::move(found->second);
  object_.erase(found);
  return value;
}

}  // namespace plimsoll::formats
