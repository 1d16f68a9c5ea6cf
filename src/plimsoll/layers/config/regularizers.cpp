#include "layers/config/regularizers.h"

#include <optional>

#include "base/error.h"
#include "base/suggest.h"

namespace plimsoll::layers {
namespace {

using graph::ValueId;

std::optional<std::string> class_of(const std::string& name) {
  if (name == "L1" || name == "l1") return "L1";
  if (name == "L2" || name == "l2") return "L2";
  if (name == "L1L2" || name == "l1l2" || name == "l1_l2") return "L1L2";
  return std::nullopt;
}

double factor(const Config& config, std::string_view key, double fallback) {
  const Config* value = config.find(key);
  return value == nullptr || value->is_null() ? fallback : value->as_double();
}

}  // namespace

std::vector<std::string> regularizer_class_names() { return {"L1", "L1L2", "L2"}; }

Config complete_regularizer(const Config& given) {
  if (given.is_null()) return given;
  const Config* name = given.is_object() ? given.find("class_name") : &given;
  if (name == nullptr || !name->is_string()) {
    throw Error(ErrorKind::kModel, "expected L1, L2 or L1L2, received " + given.to_json() + ".");
  }
  const std::optional<std::string> class_name = class_of(name->as_string());
  if (!class_name) {
    throw Error(ErrorKind::kModel, "expected L1, L2 or L1L2, received \"" + name->as_string() +
                                       "\"." +
                                       did_you_mean(name->as_string(), {"L1", "L2", "L1L2"}));
  }
  const Config* arguments = given.is_object() ? given.find("config") : nullptr;
  const Config config = arguments == nullptr ? Config(Config::Object()) : *arguments;
  Config::Object complete;
  const double fallback = *class_name == "L1L2" ? 0.0 : 0.01;
  if (*class_name != "L2") complete.emplace_back("l1", factor(config, "l1", fallback));
  if (*class_name != "L1") complete.emplace_back("l2", factor(config, "l2", fallback));
  return Config::Object{{"module", "keras.regularizers"},
                        {"class_name", *class_name},
                        {"config", std::move(complete)},
                        {"registered_name", Config()}};
}

Config read_regularizer(ConfigReader& reader, std::string_view key) {
  const Config given = reader.value(key, Config());
  try {
    Config complete = complete_regularizer(given);
    reader.complete(key, complete);
    return complete;
  } catch (const Error& error) {
    throw Error(ErrorKind::kModel, reader.where(key) + error.message());
  }
}

Config read_activity_regularizer(ConfigReader& reader) {
  constexpr std::string_view kKey = "activity_regularizer";
  const Config given = reader.legacy(kKey);
  if (given.is_null()) return given;
  try {
    Config complete = complete_regularizer(given);
    reader.complete(kKey, complete);
    return complete;
  } catch (const Error& error) {
    throw Error(ErrorKind::kModel, reader.where(kKey) + error.message());
  }
}

// |x| is made of two halves, so that its slope at zero is zero, as TensorFlow's is.
ValueId add_activity_penalty(graph::GraphBuilder& builder, const Config& regularizer,
                             ValueId output, const std::string& name) {
  const Config& config = regularizer.at("config");
  const double l1 = factor(config, "l1", 0.0);
  const double l2 = factor(config, "l2", 0.0);
  const auto scaled = [&](const std::string& part, ValueId value, double scale) {
    return builder.call("scale_shift", name + part, {value}, {{"scale", scale}, {"offset", 0.0}});
  };
  ValueId penalty;
  if (l1 != 0) {
    const graph::Attributes relu{{"kind", "relu"}};
    const ValueId above = builder.call("activation", name + "/above", {output}, relu);
    const ValueId below =
        builder.call("activation", name + "/below", {scaled("/negative", output, -1.0)}, relu);
    const ValueId sizes = builder.call("add", name + "/sizes", {above, below});
    penalty = scaled("/l1", builder.call("batch_sum", name + "/sum_sizes", {sizes}), l1);
  }
  if (l2 != 0) {
    const ValueId squares = builder.call("multiply", name + "/squares", {output, output});
    const ValueId part =
        scaled("/l2", builder.call("batch_sum", name + "/sum_squares", {squares}), l2);
    penalty = penalty.valid() ? builder.call("add", name + "/penalty", {penalty, part}) : part;
  }
  if (!penalty.valid()) return penalty;
  return builder.call("divide_by_count", name + "/share", {penalty}, {{"elements_per_sample", 1}});
}

ValueId add_penalty(graph::GraphBuilder& builder, const Config& regularizer, ValueId weight,
                    const std::string& name) {
  const Config& config = regularizer.at("config");
  const double l1 = factor(config, "l1", 0.0);
  const double l2 = factor(config, "l2", 0.0);
  ValueId penalty;
  if (l1 != 0) penalty = builder.call("sum_abs", name + "/l1", {weight}, {{"factor", l1}});
  if (l2 != 0) {
    const ValueId squares = builder.call("sum_squares", name + "/l2", {weight}, {{"factor", l2}});
    penalty =
        penalty.valid() ? builder.call("add", name + "/penalty", {penalty, squares}) : squares;
  }
  return penalty;
}

}  // namespace plimsoll::layers
