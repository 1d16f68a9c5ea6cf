#include "formats/keras_compile.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/suggest.h"
#include "formats/keras_json_impl.h"
#include "layers/batch_norm_groups.h"
#include "layers/losses.h"
#include "layers/metrics.h"
#include "layers/optimizers.h"
#include "layers/spelling.h"

namespace plimsoll::formats {
namespace {

using layers::CompileOptions;
using layers::Config;
using layers::Model;

constexpr std::string_view kCompileAgain =
    "Compile the model without it and save it again, or save it with include_optimizer=False.";

// Python's tuples come as {"class_name": "__tuple__", "items": […]}.
const Config& unwrap_tuple(const Config& value) {
  const Config* class_name = value.find("class_name");
  const Config* items = value.find("items");
  const bool tuple = class_name != nullptr && class_name->is_string() &&
                     class_name->as_string() == "__tuple__" && items != nullptr;
  return tuple ? *items : value;
}

// A loss or metric itself, as opposed to a list or a dictionary of such.
bool is_single(const Config& value) {
  return value.is_string() || (value.is_object() && value.find("class_name") != nullptr);
}

class CompileReader {
 public:
  CompileReader(const Model& model, const JsonScope& scope) : model_(model), scope_(scope) {}

  CompileOptions read(const Config& config) const {
    refuse_unsupported(config);
    CompileOptions options;
    if (const Config* optimizer = config.find("optimizer")) {
      options.optimizer = read_optimizer(*optimizer);
    }
    if (const Config* loss = config.find("loss"); loss != nullptr && !loss->is_null()) {
      options.losses = read_losses(unwrap_tuple(*loss));
    }
    if (const Config* metrics = config.find("metrics"); metrics != nullptr) {
      options.metrics = read_metrics(unwrap_tuple(*metrics));
    }
    return options;
  }

 private:
  // True for null, and for lists and dictionaries with nothing else in them.
  static bool says_nothing(const Config& value) {
    if (value.is_array()) {
      return std::all_of(value.as_array().begin(), value.as_array().end(), says_nothing);
    }
    if (value.is_object()) {
      return std::all_of(value.as_object().begin(), value.as_object().end(),
                         [](const auto& item) { return says_nothing(item.second); });
    }
    return value.is_null();
  }
  // Weights that are all 1 change nothing.
  static bool all_ones(const Config& value) {
    if (value.is_array()) {
      return std::all_of(value.as_array().begin(), value.as_array().end(), all_ones);
    }
    if (value.is_object()) {
      return std::all_of(value.as_object().begin(), value.as_object().end(),
                         [](const auto& item) { return all_ones(item.second); });
    }
    return value.is_null() || (value.is_number() && value.as_double() == 1.0);
  }

  void refuse_unsupported(const Config& config) const {
    const Config* weights = config.find("loss_weights");
    if (weights != nullptr && !all_ones(*weights)) {
      scope_.refuse("loss_weights", "none", excerpt(*weights), kCompileAgain);
    }
    const Config* weighted = config.find("weighted_metrics");
    if (weighted != nullptr && !says_nothing(*weighted)) {
      scope_.refuse("weighted_metrics", "none", excerpt(*weighted), kCompileAgain);
    }
  }

  // Arguments that Keras 2 wrote and Keras 3 has no more; those that say something are left in, to
  // be refused where the optimizer is made.
  static Config read_optimizer(const Config& optimizer) {
    const Config* arguments = optimizer.find("config");
    if (arguments == nullptr || !arguments->is_object()) return optimizer;
    Config kept{Config::Object{}};
    for (const auto& [key, value] : arguments->as_object()) {
      const bool off = says_nothing(value) || (value.is_bool() && !value.as_bool()) ||
                       (value.is_number() && value.as_double() == 0.0);
      if (key == "jit_compile" || (off && (key == "is_legacy_optimizer" || key == "decay"))) {
        continue;
      }
      kept.set(key == "lr" ? "learning_rate" : key, value);
    }
    Config result = optimizer;
    result.set("config", std::move(kept));
    return result;
  }

  size_t output_count() const { return model_.outputs().size(); }

  // One entry per output, in their order, from a list or a dictionary by output name.
  std::vector<const Config*> by_output(const Config& value, const char* what) const {
    std::vector<const Config*> entries(output_count(), nullptr);
    if (value.is_array()) {
      if (value.as_array().size() != output_count()) {
        scope_.refuse(what, "one entry for each of " + std::to_string(output_count()) + " outputs",
                      excerpt(value));
      }
      for (size_t i = 0; i < output_count(); ++i) entries[i] = &value.as_array()[i];
      return entries;
    }
    if (!value.is_object()) scope_.refuse(what, "names, a list or a dictionary", excerpt(value));
    for (const auto& [name, entry] : value.as_object()) entries[output_index(name, what)] = &entry;
    return entries;
  }

  size_t output_index(const std::string& name, const char* what) const {
    std::vector<std::string> names;
    for (size_t i = 0; i < output_count(); ++i) {
      names.push_back(model_.outputs()[i].name);
      if (names.back() == name) return i;
    }
    std::string hint = did_you_mean(name, names);
    if (!hint.empty()) hint.erase(0, 1);
    scope_.refuse(what, "names of outputs", "\"" + name + "\"", hint);
  }

  std::vector<Config> read_losses(const Config& value) const {
    if (is_single(value)) return {value};
    std::vector<Config> losses;
    const std::vector<const Config*> entries = by_output(value, "loss");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i] == nullptr || entries[i]->is_null()) {
        scope_.refuse("loss", "a loss for each output", "none for " + model_.outputs()[i].name,
                      "Leave outputs without a loss out of the model that is trained.");
      }
      losses.push_back(single(unwrap_tuple(*entries[i]), "loss"));
    }
    return losses;
  }

  // A list of one stands for what is in it.
  Config single(const Config& value, const char* what) const {
    if (value.is_array() && value.as_array().size() == 1) return single(value.as_array()[0], what);
    if (!is_single(value)) scope_.refuse(what, "a name or a serialized object", excerpt(value));
    return value;
  }

  std::vector<std::vector<Config>> read_metrics(const Config& value) const {
    if (says_nothing(value)) return {};
    const bool flat = value.is_array() &&
                      std::all_of(value.as_array().begin(), value.as_array().end(), is_single);
    if (is_single(value) || (output_count() == 1 && flat)) return {metric_list(value)};
    std::vector<std::vector<Config>> metrics;
    for (const Config* entry : by_output(value, "metrics")) {
      metrics.push_back(entry == nullptr ? std::vector<Config>{}
                                         : metric_list(unwrap_tuple(*entry)));
    }
    return metrics;
  }

  std::vector<Config> metric_list(const Config& value) const {
    if (value.is_null()) return {};
    if (is_single(value)) return {value};
    if (!value.is_array()) scope_.refuse("metrics", "a list of metrics", excerpt(value));
    std::vector<Config> list;
    for (const Config& item : value.as_array()) list.push_back(single(item, "metrics"));
    return list;
  }

  const Model& model_;
  const JsonScope& scope_;
};

// A name stays a name; an object gets Keras 3's class and module.
Config write_object(const Config& value, std::string_view what, std::string_view class_name,
                    std::string_view module) {
  if (value.is_string()) return value;
  return keras_object(module, class_name, layers::read_object(value, what).arguments);
}

Config write_loss(const Config& value, const layers::ValueType& output) {
  if (value.is_string()) return value;
  const std::string name = layers::read_loss(value, output).name;
  return write_object(value, "loss", layers::loss_class(name), "keras.losses");
}

Config write_metrics(const std::vector<Config>& metrics) {
  Config::Array list;
  for (const Config& metric : metrics) {
    const std::string name = layers::read_object(metric, "metrics").name;
    list.push_back(write_object(metric, "metrics", layers::metric_class(name), "keras.metrics"));
  }
  return list;
}

// One entry per output; one that serves all is repeated.
template <typename Entry, typename Write>
Config write_by_output(const std::vector<Entry>& entries, const Model& model, const Write& write) {
  if (entries.empty()) return {};
  Config::Array list;
  for (size_t i = 0; i < model.outputs().size(); ++i) {
    list.push_back(write(entries[std::min(i, entries.size() - 1)], model.outputs()[i].type));
  }
  if (list.size() == 1) return list.front();
  return list;
}

}  // namespace

std::optional<CompileOptions> read_compile(const Config& compile_config, const Model& model,
                                           const std::string& origin) {
  if (!compile_config.is_object() || compile_config.as_object().empty()) return std::nullopt;
  return CompileReader(model, JsonScope(origin)).read(compile_config);
}

void set_batch_norm(const std::string& text, const std::string& origin,
                    std::optional<CompileOptions>& compile) {
  try {
    const int64_t group = layers::parse_batch_norm(text);
    if (compile) compile->batch_norm_group = group;
  } catch (const Error&) {
    throw Error(ErrorKind::kModel, origin + ": expected full or slice:N as " +
                                       std::string(kBatchNormKey) + ", received \"" + text +
                                       "\". The file is damaged: write it again.");
  }
}

Config write_compile(const CompileOptions& compile, const Model& model) {
  Config config;
  if (!compile.optimizer.is_null()) {
    const std::string class_name = layers::read_optimizer(compile.optimizer).class_name;
    config.set("optimizer",
               keras_object("keras.optimizers", class_name,
                            layers::read_object(compile.optimizer, "optimizer").arguments));
  }
  config.set("loss", write_by_output(compile.losses, model, write_loss));
  config.set("loss_weights", Config());
  config.set("metrics",
             write_by_output(compile.metrics, model,
                             [](const std::vector<Config>& metrics, const layers::ValueType&) {
                               return write_metrics(metrics);
                             }));
  config.set("weighted_metrics", Config());
  config.set("run_eagerly", false);
  config.set("steps_per_execution", 1);
  config.set("jit_compile", false);
  return config;
}

}  // namespace plimsoll::formats
