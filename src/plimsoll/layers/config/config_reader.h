#pragma once

// Reads a layer's configuration key by key, in the order in which Keras prints them.
//
// Every key that is read, or takes its default, goes into the completed configuration; keys that
// nobody read are refused unless they say nothing (null) or only matter where the model is built.
// Errors are kModel and name layer and key: "[conv2d] filters: expected a positive integer,
// received "many"."

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "layers/config/config.h"

namespace plimsoll::layers {

inline constexpr std::string_view kMixedBFloat16 = "mixed_bfloat16";
inline constexpr std::string_view kMixedFloat16 = "mixed_float16";
inline constexpr std::string_view kReadPolicies = "float32, mixed_bfloat16 or mixed_float16";
bool is_read_policy(std::string_view name);  // one of these

struct NamedConfig {
  std::string class_name;
  Config config;
};

class ConfigReader {
 public:
  ConfigReader(std::string_view class_name, const Config& given);

  const std::string& class_name() const { return class_name_; }

  std::string text(std::string_view key);
  std::string text(std::string_view key, std::string_view fallback);
  // One of a few words.
  std::string choice(std::string_view key, std::string_view fallback,
                     std::initializer_list<std::string_view> words);
  bool flag(std::string_view key, bool fallback);
  int64_t integer(std::string_view key, int64_t least);
  int64_t integer(std::string_view key, int64_t fallback, int64_t least);
  double number(std::string_view key, double fallback);
  std::optional<double> optional_number(std::string_view key);
  // One integer for all `count` (one or two) dimensions, or a list of that length; printed as one.
  std::vector<int64_t> sizes(std::string_view key, size_t count, int64_t least);
  std::vector<int64_t> sizes(std::string_view key, const std::vector<int64_t>& fallback,
                             int64_t least);
  // The name of a layer's policy, also as a policy object; one that is not read is refused. Printed
  // as Keras's policy object.
  std::string policy(std::string_view key);
  // "channels_last", "channels_first", or null, which means the first; printed as a word.
  bool channels_first();
  // A key of older files that another one replaces: read, not printed; null where absent.
  Config legacy(std::string_view key);
  // Any value; `complete` is printed in its place.
  Config value(std::string_view key, const Config& fallback);
  // An object with class_name and config, as Keras writes a layer that is inside of another.
  NamedConfig named(std::string_view key, const std::string& expected);
  void complete(std::string_view key, Config value);
  // A key that must be null, false or absent; `next_step` says what to do about it.
  void refuse_unless_empty(std::string_view key, std::string_view next_step);

  // "[<layer>] <key>: "
  std::string where(std::string_view key) const;
  [[noreturn]] void refuse(std::string_view key, const std::string& expected,
                           const std::string& received, std::string_view next_step = "") const;

  // Refuses what was not read; the completed configuration.
  Config finish();

 private:
  // Marks the key as read; nullptr where it is absent.
  const Config* take(std::string_view key);

  std::string class_name_;
  const Config& given_;
  std::string layer_;
  std::set<std::string, std::less<>> read_;
  Config::Object completed_;
};

}  // namespace plimsoll::layers
