#pragma once

// A layer's configuration as plain data: the shape of a JSON document without a JSON library.
//
// formats fills it from Keras files and prints it back; layers read and write it. Objects keep the
// order of their keys, so that a file round-trips. Depth and size are bounded by the reader. Copies
// share their arrays and objects until one of them is changed: a model's constants, number by
// number, are handed from stage to stage and are there once.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace plimsoll::layers {

class Config {
 public:
  using Array = std::vector<Config>;
  using Object = std::vector<std::pair<std::string, Config>>;

  // Values convert by themselves, as in JSON. NOLINTBEGIN(google-explicit-constructor)
  Config() = default;  // null
  Config(bool value) : value_(value) {}
  Config(int value) : value_(int64_t{value}) {}
  Config(int64_t value) : value_(value) {}
  Config(double value) : value_(value) {}
  Config(const char* value) : value_(std::string(value)) {}
  Config(std::string value) : value_(std::move(value)) {}
  Config(Array value) : value_(std::make_shared<Array>(std::move(value))) {}
  Config(Object value) : value_(std::make_shared<Object>(std::move(value))) {}
  // NOLINTEND(google-explicit-constructor)

  // Out of line: a variant's copies and moves are much code, and every layer makes some.
  Config(const Config& other);
  Config(Config&& other) noexcept;
  Config& operator=(const Config& other);
  Config& operator=(Config&& other) noexcept;
  ~Config();

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_number() const { return is_int() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<SharedArray>(value_); }
  bool is_object() const { return std::holds_alternative<SharedObject>(value_); }

  // Each throws kModel ("expected an integer, received "same"") where the kind is another.
  bool as_bool() const;
  int64_t as_int() const;  // a double without a fraction passes
  double as_double() const;
  const std::string& as_string() const;
  const Array& as_array() const;
  const Object& as_object() const;

  // Object access: nullptr where there is no such key (or this is no object).
  const Config* find(std::string_view key) const;
  // Throws kModel naming the key.
  const Config& at(std::string_view key) const;
  // Sets or replaces a key; a null becomes an object first.
  void set(std::string key, Config value);

  // Compact JSON, for messages and tests.
  std::string to_json() const;

  friend bool operator==(const Config& a, const Config& b);

 private:
  using SharedArray = std::shared_ptr<const Array>;
  using SharedObject = std::shared_ptr<Object>;

  std::variant<std::monostate, bool, int64_t, double, std::string, SharedArray, SharedObject>
      value_;
};

// What a file writes for an argument or option that nobody gave: null, false, and lists and objects
// of nothing else.
bool says_nothing(const Config& value);

}  // namespace plimsoll::layers
