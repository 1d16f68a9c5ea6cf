#include "layers/config/regularizers.h"

#include <optional>

#include "base/error.h"
#include "base/suggest.h"

namespace plimsoll::layers {
namespace {

using graph::ValueId;

constexpr double kNormEpsilon = 1e-7;  // Keras's
constexpr std::string_view kOrthogonal = "OrthogonalRegularizer";
constexpr const char* kExpected = "expected L1, L2, L1L2 or OrthogonalRegularizer, received ";

std::optional<std::string> class_of(const std::string& name) {
  if (name == "L1" || name == "l1") return "L1";
  if (name == "L2" || name == "l2") return "L2";
  if (name == "L1L2" || name == "l1l2" || name == "l1_l2") return "L1L2";
  if (name == kOrthogonal || name == "orthogonal_regularizer") return std::string(kOrthogonal);
  return std::nullopt;
}

double factor(const Config& config, std::string_view key, double fallback) {
  const Config* value = config.find(key);
  return value == nullptr || value->is_null() ? fallback : value->as_double();
}

Config complete_orthogonal(const Config& config) {
  const Config* given = config.find("mode");
  const Config mode = given == nullptr ? Config("rows") : *given;
  if (!mode.is_string() || (mode.as_string() != "rows" && mode.as_string() != "columns")) {
    throw Error(ErrorKind::kModel,
                "mode: expected \"rows\" or \"columns\", received " + mode.to_json() + ".");
  }
  return Config::Object{
      {"module", "keras.regularizers"},
      {"class_name", std::string(kOrthogonal)},
      {"config", Config::Object{{"factor", factor(config, "factor", 0.01)}, {"mode", mode}}},
      {"registered_name", Config()}};
}

bool is_orthogonal(const Config& regularizer) {
  return !regularizer.is_null() && regularizer.at("class_name").as_string() == kOrthogonal;
}

// factor / 2 · Σ |x_i · x_j| over pairs i ≠ j of rows (or columns) of length one, divided by the
// number of pairs. The sum over all pairs has Σ x_i² too many.
ValueId add_orthogonal_penalty(graph::GraphBuilder& builder, const Config& config, ValueId weight,
                               const std::string& name) {
  const std::vector<int64_t> dims = builder.type(weight).shape.at(1);
  if (dims.size() != 2) {
    throw Error(ErrorKind::kModel, "[" + name + "] expected a matrix for " +
                                       std::string(kOrthogonal) + ", received " +
                                       to_string(builder.type(weight).shape) +
                                       ". Take another regularizer for this weight.");
  }
  const bool rows = config.at("mode").as_string() == "rows";
  const auto size = static_cast<double>(rows ? dims[0] : dims[1]);
  if (size < 2) return {};  // there are no pairs
  const double scale = config.at("factor").as_double() / (size * (size - 1.0));
  if (scale == 0) return {};
  const ValueId matrix = builder.call("reshape", name + "/matrix", {weight},
                                      {{"shape", std::vector<int64_t>{1, dims[0], dims[1]}}});
  const ValueId unit =
      builder.call("l2_normalize", name + "/unit", {matrix},
                   {{"axis", rows ? int64_t{2} : int64_t{1}}, {"epsilon", kNormEpsilon}});
  const ValueId products = builder.call("batch_matmul", name + "/products", {unit, unit},
                                        {{"transpose_left", !rows}, {"transpose_right", rows}});
  const ValueId all = builder.call("sum_abs", name + "/all_pairs", {products}, {{"factor", scale}});
  const ValueId alike =
      builder.call("sum_squares", name + "/with_themselves", {unit}, {{"factor", -scale}});
  return builder.call("add", name + "/orthogonal", {all, alike});
}

}  // namespace

std::vector<std::string> regularizer_class_names() {
  return {"L1", "L1L2", "L2", std::string(kOrthogonal)};
}

Config complete_regularizer(const Config& given) {
  if (given.is_null()) return given;
  const Config* name = given.is_object() ? given.find("class_name") : &given;
  if (name == nullptr || !name->is_string()) {
    throw Error(ErrorKind::kModel, kExpected + given.to_json() + ".");
  }
  const std::optional<std::string> class_name = class_of(name->as_string());
  if (!class_name) {
    throw Error(ErrorKind::kModel, kExpected + ("\"" + name->as_string() + "\".") +
                                       did_you_mean(name->as_string(), regularizer_class_names()));
  }
  const Config* arguments = given.is_object() ? given.find("config") : nullptr;
  const Config config = arguments == nullptr ? Config(Config::Object()) : *arguments;
  Config::Object complete;
  if (*class_name == kOrthogonal) return complete_orthogonal(config);
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
    if (is_orthogonal(complete)) {
      throw Error(ErrorKind::kModel, "expected L1, L2 or L1L2, received " +
                                         std::string(kOrthogonal) +
                                         ". It would compare samples of the batch.");
    }
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
  if (is_orthogonal(regularizer)) return add_orthogonal_penalty(builder, config, weight, name);
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
