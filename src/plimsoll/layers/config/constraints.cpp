#include "layers/config/constraints.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "layers/config/names.h"

namespace plimsoll::layers {
namespace {

using graph::ValueId;

constexpr std::array<std::string_view, 4> kClasses = {"MaxNorm", "MinMaxNorm", "NonNeg",
                                                      "UnitNorm"};

std::string class_of(const std::string& name) {
  std::vector<std::string> known;
  for (std::string_view class_name : kClasses) {
    known.push_back(snake_case(class_name));
    if (name == class_name || name == known.back()) return std::string(class_name);
  }
  if (name == "maxnorm") return "MaxNorm";
  if (name == "nonneg") return "NonNeg";
  if (name == "unitnorm") return "UnitNorm";
  throw Error(ErrorKind::kModel,
              "expected max_norm, min_max_norm, non_neg or unit_norm, received "
              "\"" +
                  name + "\"." + did_you_mean(name, known));
}

// Takes the arguments that a class knows, in Keras's order.
class Arguments {
 public:
  explicit Arguments(const Config::Object& given) : given_(given) {}

  // `old_name`: of Keras 1.
  void number(std::string_view key, double fallback, std::string_view old_name = "") {
    const Config* value = take(key);
    if (value == nullptr && !old_name.empty()) value = take(old_name);
    const bool given = value != nullptr && !value->is_null();
    if (given && !value->is_number()) refuse(key, "a number", *value);
    complete_.emplace_back(key, given ? *value : Config(fallback));
  }
  // An integer, or a list of them.
  void axis() {
    const Config* value = take("axis");
    const Config axis = value == nullptr || value->is_null() ? Config(0) : *value;
    const Config::Array list = axis.is_array() ? axis.as_array() : Config::Array{axis};
    for (const Config& entry : list) {
      if (!entry.is_int()) refuse("axis", "an integer or a list of integers", axis);
    }
    complete_.emplace_back("axis", axis);
  }
  Config::Object finish() {
    for (const auto& [key, value] : given_) {
      if (std::find(taken_.begin(), taken_.end(), key) == taken_.end()) {
        refuse(key, "no such argument", value);
      }
    }
    return std::move(complete_);
  }

 private:
  const Config* take(std::string_view key) {
    taken_.emplace_back(key);
    for (const auto& [name, value] : given_) {
      if (name == key) return &value;
    }
    return nullptr;
  }
  [[noreturn]] static void refuse(std::string_view key, const std::string& expected,
                                  const Config& received) {
    throw Error(ErrorKind::kModel, std::string(key) + ": expected " + expected + ", received " +
                                       received.to_json() + ".");
  }

  const Config::Object& given_;
  std::vector<std::string> taken_;
  Config::Object complete_;
};

// Dimensions of the weight that a norm runs over, counted from the front.
std::vector<int64_t> norm_axes(const Config& constraint, int rank, const std::string& name) {
  const Config& axis = constraint.at("config").at("axis");
  const Config::Array list = axis.is_array() ? axis.as_array() : Config::Array{axis};
  std::vector<int64_t> axes;
  for (const Config& entry : list) {
    const int64_t counted = entry.as_int() < 0 ? entry.as_int() + rank : entry.as_int();
    if (counted < 0 || counted >= rank) {
      throw Error(
          ErrorKind::kModel,
          fmt::format("{}: expected axes of a constraint on a weight of rank {}, received {}.",
                      name, rank, axis.to_json()));
    }
    axes.push_back(counted);
  }
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

}  // namespace

std::vector<std::string> constraint_class_names() { return {kClasses.begin(), kClasses.end()}; }

Config complete_constraint(const Config& given) {
  if (given.is_null()) return given;
  const Config* name = given.is_object() ? given.find("class_name") : &given;
  if (name == nullptr || !name->is_string()) {
    throw Error(ErrorKind::kModel,
                "expected the name of a constraint, received " + given.to_json() + ".");
  }
  const std::string class_name = class_of(name->as_string());
  const Config* config = given.is_object() ? given.find("config") : nullptr;
  const Config::Object none;
  Arguments arguments(config == nullptr || config->is_null() ? none : config->as_object());
  if (class_name == "MinMaxNorm") {
    arguments.number("min_value", 0.0, "low");
    arguments.number("max_value", 1.0, "high");
    arguments.number("rate", 1.0);
    arguments.axis();
  } else if (class_name == "MaxNorm") {
    arguments.number("max_value", 2, "m");
    arguments.axis();
  } else if (class_name == "UnitNorm") {
    arguments.axis();
  }
  return Config::Object{{"module", "keras.constraints"},
                        {"class_name", class_name},
                        {"config", arguments.finish()},
                        {"registered_name", Config()}};
}

Config read_constraint(ConfigReader& reader, std::string_view key) {
  const Config given = reader.value(key, Config());
  try {
    Config complete = complete_constraint(given);
    reader.complete(key, complete);
    return complete;
  } catch (const Error& error) {
    throw Error(ErrorKind::kModel, reader.where(key) + error.message());
  }
}

ValueId add_constraint(graph::GraphBuilder& builder, const Config& constraint, ValueId weight,
                       const std::string& name) {
  const std::string& class_name = constraint.at("class_name").as_string();
  if (class_name == "NonNeg") {
    return builder.call("activation", name + "/non_neg", {weight}, {{"kind", "relu"}});
  }
  const Config& config = constraint.at("config");
  graph::Attributes attributes{
      {"axes", norm_axes(constraint, builder.type(weight).shape.rank(), name)}};
  if (class_name == "UnitNorm") {
    return builder.call("unit_norm", name + "/unit_norm", {weight}, attributes);
  }
  const bool both = class_name == "MinMaxNorm";
  attributes.set("min_value", both ? config.at("min_value").as_double() : 0.0);
  attributes.set("max_value", config.at("max_value").as_double());
  attributes.set("rate", both ? config.at("rate").as_double() : 1.0);
  return builder.call("clip_norm", name + "/clip_norm", {weight}, attributes);
}

}  // namespace plimsoll::layers
