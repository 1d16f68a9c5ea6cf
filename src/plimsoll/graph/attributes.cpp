#include "graph/attributes.h"

#include "base/error.h"

namespace plimsoll::graph {
namespace {

constexpr std::string_view kTypeNames[] = {"a boolean", "an integer", "a number", "a string",
                                           "a list of integers"};

[[noreturn]] void bad_attribute(std::string_view key, std::string_view expected,
                                const AttributeValue* received) {
  throw Error(
      ErrorKind::kModel,
      "attribute \"" + std::string(key) + "\": expected " + std::string(expected) + ", received " +
          (received == nullptr ? "none" : std::string(kTypeNames[received->index()])) + ".");
}

template <typename T>
const T& read(std::string_view key, std::string_view expected, const AttributeValue* value) {
  const T* typed = value == nullptr ? nullptr : std::get_if<T>(value);
  if (typed == nullptr) bad_attribute(key, expected, value);
  return *typed;
}

}  // namespace

const AttributeValue* Attributes::find(std::string_view key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second;
}

bool Attributes::has(std::string_view key) const { return find(key) != nullptr; }

bool Attributes::get_bool(std::string_view key) const {
  return read<bool>(key, "true or false", find(key));
}

int64_t Attributes::get_int(std::string_view key) const {
  return read<int64_t>(key, "an integer", find(key));
}

double Attributes::get_double(std::string_view key) const {
  const AttributeValue* value = find(key);
  if (value != nullptr && std::holds_alternative<int64_t>(*value)) {
    return static_cast<double>(std::get<int64_t>(*value));
  }
  return read<double>(key, "a number", value);
}

const std::string& Attributes::get_string(std::string_view key) const {
  return read<std::string>(key, "a string", find(key));
}

const std::vector<int64_t>& Attributes::get_ints(std::string_view key) const {
  return read<std::vector<int64_t>>(key, "a list of integers", find(key));
}

bool Attributes::get_bool(std::string_view key, bool fallback) const {
  return has(key) ? get_bool(key) : fallback;
}

int64_t Attributes::get_int(std::string_view key, int64_t fallback) const {
  return has(key) ? get_int(key) : fallback;
}

double Attributes::get_double(std::string_view key, double fallback) const {
  return has(key) ? get_double(key) : fallback;
}

std::string Attributes::get_string(std::string_view key, std::string_view fallback) const {
  return has(key) ? get_string(key) : std::string(fallback);
}

}  // namespace plimsoll::graph
