#include "layers/config/initializers.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "layers/config/call_sites.h"
#include "layers/config/names.h"

namespace plimsoll::layers {
namespace {

using graph::Attributes;

constexpr std::array<std::string_view, 16> kClasses = {"Constant",
                                                       "GlorotNormal",
                                                       "GlorotUniform",
                                                       "HeNormal",
                                                       "HeUniform",
                                                       "Identity",
                                                       "LecunNormal",
                                                       "LecunUniform",
                                                       "Ones",
                                                       "Orthogonal",
                                                       "RandomNormal",
                                                       "RandomUniform",
                                                       "TruncatedNormal",
                                                       "VarianceScaling",
                                                       "Zeros",
                                                       "STFT"};

struct Alias {
  std::string_view name;
  std::string_view class_name;
};
constexpr std::array<Alias, 6> kAliases = {{{"IdentityInitializer", "Identity"},
                                            {"OrthogonalInitializer", "Orthogonal"},
                                            {"normal", "RandomNormal"},
                                            {"uniform", "RandomUniform"},
                                            {"one", "Ones"},
                                            {"zero", "Zeros"}}};

// Standard deviation of a standard normal distribution cut at two standard deviations.
constexpr double kTruncatedDeviation = 0.87962566103423978;

std::string class_of(const std::string& name) {
  std::vector<std::string> known;
  for (std::string_view class_name : kClasses) {
    if (name == class_name || name == snake_case(class_name)) {
      return std::string(class_name);
    }
    known.push_back(snake_case(class_name));
  }
  for (const Alias& alias : kAliases) {
    if (name == alias.name) return std::string(alias.class_name);
  }
  throw Error(ErrorKind::kModel, "expected the name of an initializer, received \"" + name + "\"." +
                                     did_you_mean(name, known));
}

double number_of(const Config& config, std::string_view key, double fallback) {
  const Config* value = config.find(key);
  return value == nullptr || value->is_null() ? fallback : value->as_double();
}

std::string text_of(const Config& config, std::string_view key, std::string_view fallback) {
  const Config* value = config.find(key);
  return value == nullptr || value->is_null() ? std::string(fallback) : value->as_string();
}

// The arguments of VarianceScaling that a class stands for.
struct Scaling {
  double scale = 1.0;
  std::string mode = "fan_in";
  std::string distribution = "truncated_normal";
};

Scaling scaling_of(const std::string& class_name, const Config& config) {
  if (class_name == "GlorotUniform") return {1.0, "fan_avg", "uniform"};
  if (class_name == "GlorotNormal") return {1.0, "fan_avg", "truncated_normal"};
  if (class_name == "HeUniform") return {2.0, "fan_in", "uniform"};
  if (class_name == "HeNormal") return {2.0, "fan_in", "truncated_normal"};
  if (class_name == "LecunUniform") return {1.0, "fan_in", "uniform"};
  if (class_name == "LecunNormal") return {1.0, "fan_in", "truncated_normal"};
  Scaling scaling;
  scaling.scale = number_of(config, "scale", 1.0);
  scaling.mode = text_of(config, "mode", "fan_in");
  scaling.distribution = text_of(config, "distribution", "truncated_normal");
  if (scaling.distribution == "normal") scaling.distribution = "truncated_normal";
  return scaling;
}

void check_scaling(const Scaling& scaling) {
  const auto known = [](const std::string& word, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (!(scaling.scale > 0)) {
    throw Error(
        ErrorKind::kModel,
        fmt::format("VarianceScaling: expected a positive scale, received {:f}.", scaling.scale));
  }
  if (!known(scaling.mode, {"fan_in", "fan_out", "fan_avg"})) {
    throw Error(ErrorKind::kModel,
                "VarianceScaling: expected the mode fan_in, fan_out or fan_avg, received \"" +
                    scaling.mode + "\"." +
                    did_you_mean(scaling.mode, {"fan_in", "fan_out", "fan_avg"}));
  }
  if (!known(scaling.distribution, {"uniform", "truncated_normal", "untruncated_normal"})) {
    throw Error(ErrorKind::kModel,
                "VarianceScaling: expected the distribution uniform, truncated_normal or "
                "untruncated_normal, received \"" +
                    scaling.distribution + "\"." +
                    did_you_mean(scaling.distribution,
                                 {"uniform", "truncated_normal", "untruncated_normal"}));
  }
}

bool is_scaling(const std::string& class_name) {
  return class_name == "VarianceScaling" || class_name.starts_with("Glorot") ||
         class_name.starts_with("He") || class_name.starts_with("Lecun");
}

struct Fans {
  double in = 1;
  double out = 1;
};

// The product of the extents of the axes that an initializer names. Throws kModel for axes that the
// shape does not have.
double fan_of(const Config& axes, std::string_view key, const std::vector<int64_t>& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  double fan = 1;
  for (const Config& axis : axes.as_array()) {
    if (!axis.is_int() || axis.as_int() < -rank || axis.as_int() >= rank) {
      throw Error(ErrorKind::kModel,
                  fmt::format("{}: expected axes of a weight of rank {}, received {}.", key, rank,
                              axes.to_json()));
    }
    fan *= static_cast<double>(shape[static_cast<size_t>((axis.as_int() + rank) % rank)]);
  }
  return fan;
}

Fans compute_fans(const Config& config, const std::vector<int64_t>& shape) {
  const Config* inputs = config.find("input_axes");
  const Config* outputs = config.find("output_axes");
  if (inputs != nullptr && outputs != nullptr && !inputs->is_null() && !outputs->is_null()) {
    return {fan_of(*inputs, "input_axes", shape), fan_of(*outputs, "output_axes", shape)};
  }
  if (shape.empty()) return {};
  if (shape.size() == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  double field = 1;
  for (size_t i = 0; i + 2 < shape.size(); ++i) field *= static_cast<double>(shape[i]);
  return {field * static_cast<double>(shape[shape.size() - 2]),
          field * static_cast<double>(shape.back())};
}

struct Draw {
  std::string op;
  Attributes attributes;
};

Draw scaled_draw(const std::string& class_name, const Config& config,
                 const std::vector<int64_t>& shape) {
  const Scaling scaling = scaling_of(class_name, config);
  const Fans fans = compute_fans(config, shape);
  const double fan = scaling.mode == "fan_in"    ? fans.in
                     : scaling.mode == "fan_out" ? fans.out
                                                 : (fans.in + fans.out) / 2;
  const double scale = scaling.scale / std::max(1.0, fan);
  if (scaling.distribution == "uniform") {
    const double limit = std::sqrt(3.0 * scale);
    return {"random_uniform", {{"minval", -limit}, {"maxval", limit}}};
  }
  if (scaling.distribution == "untruncated_normal") {
    return {"random_normal", {{"mean", 0.0}, {"stddev", std::sqrt(scale)}}};
  }
  return {"truncated_normal", {{"mean", 0.0}, {"stddev", std::sqrt(scale) / kTruncatedDeviation}}};
}

// One of a few words, or null where that is a choice too.
std::string word_of(const Config& config, std::string_view key, std::string_view fallback,
                    std::initializer_list<std::string_view> words, bool or_none = false) {
  const Config* given = config.find(key);
  if (or_none && given != nullptr && given->is_null()) return "none";
  const std::string word = given == nullptr     ? std::string(fallback)
                           : given->is_string() ? given->as_string()
                                                : given->to_json();
  if (std::ranges::find(words, word) != words.end()) return word;
  std::string all;
  for (const std::string_view one : words) all += (all.empty() ? "" : ", ") + std::string(one);
  throw Error(ErrorKind::kModel, fmt::format("STFT, {}: expected {}{}, received {}.", key,
                                             or_none ? "null or one of " : "one of ", all, word));
}

Draw waves_of(const Config& config) {
  const Config* periodic = config.find("periodic");
  return {"fourier_waves",
          {{"side", word_of(config, "side", "real", {"real", "imag"})},
           {"window", word_of(config, "window", "hann",
                              {"blackman", "blackmanharris", "boxcar", "flattop", "hamming", "hann",
                               "nuttall"},
                              true)},
           {"scaling", word_of(config, "scaling", "density", {"density", "spectrum"}, true)},
           {"periodic", periodic != nullptr && periodic->is_bool() && periodic->as_bool()}}};
}

Draw draw_of(const std::string& class_name, const Config& config,
             const std::vector<int64_t>& shape) {
  if (is_scaling(class_name)) return scaled_draw(class_name, config, shape);
  if (class_name == "Zeros") return {"constant", {{"value", 0.0}}};
  if (class_name == "Ones") return {"constant", {{"value", 1.0}}};
  if (class_name == "Constant") return {"constant", {{"value", number_of(config, "value", 0.0)}}};
  if (class_name == "RandomUniform") {
    return {"random_uniform",
            {{"minval", number_of(config, "minval", -0.05)},
             {"maxval", number_of(config, "maxval", 0.05)}}};
  }
  if (class_name == "RandomNormal" || class_name == "TruncatedNormal") {
    return {
        snake_case(class_name),
        {{"mean", number_of(config, "mean", 0.0)}, {"stddev", number_of(config, "stddev", 0.05)}}};
  }
  if (class_name == "STFT") return waves_of(config);
  return {snake_case(class_name), {{"gain", number_of(config, "gain", 1.0)}}};
}

}  // namespace

std::vector<std::string> initializer_class_names() { return {kClasses.begin(), kClasses.end()}; }

Config complete_initializer(const Config& given) {
  const Config* class_name = given.is_object() ? given.find("class_name") : &given;
  if (class_name == nullptr || !class_name->is_string()) {
    throw Error(ErrorKind::kModel,
                "expected the name of an initializer, received " + given.to_json() + ".");
  }
  const std::string name = class_of(class_name->as_string());
  const Config* arguments = given.is_object() ? given.find("config") : nullptr;
  Config config =
      arguments == nullptr || arguments->is_null() ? Config(Config::Object()) : *arguments;
  config.as_object();
  if (is_scaling(name)) {
    check_scaling(scaling_of(name, config));
    for (std::string_view axes : {"input_axes", "output_axes"}) {
      const Config* value = config.find(axes);
      if (value != nullptr && !value->is_null() && !value->is_array()) {
        throw Error(ErrorKind::kModel, std::string(axes) +
                                           ": expected null or a list of axes, "
                                           "received " +
                                           value->to_json() + ".");
      }
    }
  } else {
    draw_of(name, config, {1, 1});  // checks the kinds of its arguments
  }
  return Config::Object{{"module", "keras.initializers"},
                        {"class_name", name},
                        {"config", std::move(config)},
                        {"registered_name", Config()}};
}

Config read_initializer(ConfigReader& reader, std::string_view key, std::string_view fallback) {
  const Config given = reader.value(key, std::string(fallback));
  try {
    Config complete = complete_initializer(given);
    reader.complete(key, complete);
    return complete;
  } catch (const Error& error) {
    throw Error(ErrorKind::kModel, reader.where(key) + error.message());
  }
}

Config with_fans(const Config& initializer, const std::vector<int64_t>& inputs,
                 const std::vector<int64_t>& outputs) {
  const std::string& class_name = initializer.at("class_name").as_string();
  const Config& config = initializer.at("config");
  const auto names = [&](std::string_view key) {
    const Config* axes = config.find(key);
    return axes != nullptr && !axes->is_null();
  };
  if (!is_scaling(class_name) || (names("input_axes") && names("output_axes"))) return initializer;
  Config::Object arguments;
  for (const auto& [key, value] : config.as_object()) {
    if (key != "input_axes" && key != "output_axes") arguments.emplace_back(key, value);
  }
  arguments.emplace_back("input_axes", Config(Config::Array(inputs.begin(), inputs.end())));
  arguments.emplace_back("output_axes", Config(Config::Array(outputs.begin(), outputs.end())));
  return Config::Object{{"class_name", class_name}, {"config", Config(std::move(arguments))}};
}

graph::ValueId add_initializer(graph::GraphBuilder& builder, const Config& initializer,
                               const std::vector<int64_t>& shape, const std::string& name) {
  const std::string& class_name = initializer.at("class_name").as_string();
  if (class_name == kUnitForgetBias) {
    const int64_t units = shape[0] / 4;
    const Config& others = initializer.at("config").at("initializer");
    const std::vector<graph::ValueId> parts = {
        add_initializer(builder, others, {1, units}, name + "/input"),
        builder.call("constant", name + "/forget", {},
                     {{"shape", std::vector<int64_t>{1, units}}, {"value", 1.0}}),
        add_initializer(builder, others, {1, 2 * units}, name + "/rest")};
    const graph::ValueId row = builder.call("concat", name + "/gates", parts, {{"axis", 1}});
    return builder.call("reshape", name + "/unit_forget_bias", {row}, {{"shape", shape}});
  }
  Draw draw = draw_of(class_name, initializer.at("config"), shape);
  draw.attributes.set("shape", shape);
  if (draw.op != "constant" && draw.op != "identity" && draw.op != "fourier_waves") {
    const Config* seed = initializer.at("config").find("seed");
    const bool seeded = seed != nullptr && seed->is_int();
    draw.attributes.set("site", site_of(seeded ? name + "#" + seed->to_json() : name));
  }
  return builder.call(draw.op, name + "/" + snake_case(class_name), {}, draw.attributes);
}

}  // namespace plimsoll::layers
