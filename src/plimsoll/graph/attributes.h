#pragma once

// Attributes of a node: an ordered table of named plain values that prints and parses.
//
// Keys are Keras's names where Keras has one (strides, padding, dilation_rate, rate, epsilon).
// Reading a key that is missing or of another type throws kModel unless a default is given; the
// shape rule reads them all when a node is built, so nobody after it meets a bad one.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace plimsoll::graph {

using AttributeValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, AttributeValue>> entries)
      : entries_(entries) {}

  void set(std::string key, AttributeValue value) { entries_[std::move(key)] = std::move(value); }
  void erase(const std::string& key) { entries_.erase(key); }
  bool has(std::string_view key) const;

  bool get_bool(std::string_view key) const;
  int64_t get_int(std::string_view key) const;
  double get_double(std::string_view key) const;  // an integer passes for a double
  const std::string& get_string(std::string_view key) const;
  const std::vector<int64_t>& get_ints(std::string_view key) const;

  bool get_bool(std::string_view key, bool fallback) const;
  int64_t get_int(std::string_view key, int64_t fallback) const;
  double get_double(std::string_view key, double fallback) const;
  std::string get_string(std::string_view key, std::string_view fallback) const;

  // In key order.
  const std::map<std::string, AttributeValue, std::less<>>& entries() const { return entries_; }
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  const AttributeValue* find(std::string_view key) const;
  std::map<std::string, AttributeValue, std::less<>> entries_;
};

}  // namespace plimsoll::graph
