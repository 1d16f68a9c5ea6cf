#include "formats/keras/keras_compile.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "formats/keras/keras_json_impl.h"
#include "layers/config/spelling.h"
#include "layers/model/model_tree.h"
#include "layers/training/batch_norm_groups.h"
#include "layers/training/losses.h"
#include "layers/training/metrics.h"
#include "layers/training/optimizers.h"

namespace plimsoll::formats {
namespace {

using layers::CompileOptions;
using layers::Config;
using layers::Model;

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
  CompileReader(const Model& model, const JsonSource& source) : model_(model), source_(source) {}

  CompileOptions read(const Config& config) const {
    CompileOptions options;
    options.skips_metrics = true;
    if (const Config* optimizer = config.find("optimizer")) {
      options.optimizer = read_optimizer(*optimizer);
      if (scales_loss(config, *optimizer)) {
        options.optimizer = layers::with_loss_scale(options.optimizer);
      }
    }
    attempt("loss", config, options,
            [&](const Config& value) { options.losses = read_losses(value); });
    attempt("loss_weights", config, options,
            [&](const Config& value) { options.loss_weights = read_weights(value); });
    attempt("metrics", config, options,
            [&](const Config& value) { options.metrics = read_metrics(value, "metrics"); });
    attempt("weighted_metrics", config, options, [&](const Config& value) {
      options.weighted_metrics = read_metrics(value, "weighted_metrics");
    });
    for (const char* key : kSettings) {
      const Config* value = config.find(key);
      if (value != nullptr && !value->is_null()) options.unread.set(key, *value);
    }
    return options;
  }

 private:
  // Settings of compile() that say how Keras runs a step, not what it computes.
  static constexpr std::array kSettings = {"run_eagerly", "steps_per_execution", "jit_compile",
                                           "auto_scale_loss"};

  // Reads one key; what cannot be read stays as it is, with the reason where a step needs it.
  template <typename Read>
  static void attempt(const char* key, const Config& config, CompileOptions& options,
                      const Read& read) {
    const Config* value = config.find(key);
    if (value == nullptr || value->is_null()) return;
    try {
      read(unwrap_tuple(*value));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kModel) throw;
      options.unread.set(key, *value);
      const bool needed = std::string_view(key).starts_with("loss");
      if (needed && options.unread_loss.empty()) options.unread_loss = error.message();
    }
  }

  // A factor per output; none where there is none, or where one stands for all outputs' and is 1.
  std::vector<double> read_weights(const Config& value) const {
    if (says_nothing(value)) return {};
    std::vector<double> weights;
    const auto add = [&](const Config* weight) {
      if (weight != nullptr && !weight->is_null() && !weight->is_number()) {
        source_.refuse("loss_weights", "numbers", excerpt(*weight));
      }
      weights.push_back(weight == nullptr || weight->is_null() ? 1.0 : weight->as_double());
    };
    if (value.is_number()) {
      add(&value);
    } else {
      for (const Config* weight : by_output(value, "loss_weights")) add(weight);
    }
    const bool all_ones = std::ranges::all_of(weights, [](double weight) { return weight == 1; });
    return all_ones ? std::vector<double>{} : weights;
  }

  // Keras's compile() of a model of mixed_float16 puts a scale around the optimizer that it is
  // given.
  bool scales_loss(const Config& config, const Config& optimizer) const {
    const Config* asked = config.find("auto_scale_loss");
    if (asked != nullptr && asked->is_bool() && !asked->as_bool()) return false;
    return !optimizer.is_null() && !is_loss_scale(optimizer) && model_.asks_for_float16();
  }

  static bool is_loss_scale(const Config& optimizer) {
    const Config* name = optimizer.find("class_name");
    return name != nullptr && name->is_string() && layers::is_loss_scale(name->as_string());
  }

  // Arguments that Keras 2 wrote and Keras 3 has no more; those that say something are left in, to
  // be refused where the optimizer is made.
  static Config read_optimizer(const Config& optimizer) {
    const Config* arguments = optimizer.find("config");
    if (arguments == nullptr || !arguments->is_object()) return optimizer;
    Config kept{Config::Object{}};
    for (const auto& [key, value] : arguments->as_object()) {
      const bool off = says_nothing(value) || (value.is_number() && value.as_double() == 0.0);
      if (key == "jit_compile" || (off && (key == "is_legacy_optimizer" || key == "decay"))) {
        continue;
      }
      if (key == "inner_optimizer") {
        kept.set(key, read_optimizer(value));
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
        source_.refuse(what, fmt::format("one entry for each of {} outputs", output_count()),
                       excerpt(value));
      }
      for (size_t i = 0; i < output_count(); ++i) entries[i] = &value.as_array()[i];
      return entries;
    }
    if (!value.is_object()) source_.refuse(what, "names, a list or a dictionary", excerpt(value));
    for (const auto& [name, entry] : value.as_object()) {
      for (size_t i : outputs_called(name, what)) entries[i] = &entry;
    }
    return entries;
  }

  // Outputs are called as their layers are, or as the file's dictionary of them says. Those of one
  // layer have one name, and what is said of it is said of each.
  std::vector<size_t> outputs_called(const std::string& name, const char* what) const {
    if (model_.tree() != nullptr && model_.tree()->output_structure.is_object()) {
      const Config* named = model_.tree()->output_structure.find(name);
      const Config* tensor = named == nullptr ? nullptr : named->find("tensor");
      if (tensor != nullptr) return {static_cast<size_t>(tensor->as_int())};
    }
    std::vector<std::string> names;
    std::vector<size_t> called;
    for (size_t i = 0; i < output_count(); ++i) {
      names.push_back(model_.outputs()[i].name);
      if (names.back() == name) called.push_back(i);
    }
    if (!called.empty()) return called;
    std::string hint = did_you_mean(name, names);
    if (!hint.empty()) hint.erase(0, 1);
    source_.refuse(what, "names of outputs", "\"" + name + "\"", hint);
  }

  std::vector<Config> read_losses(const Config& value) const {
    if (is_single(value)) return {value};
    std::vector<Config> losses;
    for (const Config* entry : by_output(value, "loss")) {
      const bool none = entry == nullptr || says_nothing(*entry);
      losses.push_back(none ? Config() : single(unwrap_tuple(*entry), "loss"));
    }
    return losses;
  }

  // A list of one stands for what is in it.
  Config single(const Config& value, const char* what) const {
    if (value.is_array() && value.as_array().size() == 1) return single(value.as_array()[0], what);
    if (!is_single(value)) source_.refuse(what, "a name or a serialized object", excerpt(value));
    return value;
  }

  std::vector<std::vector<Config>> read_metrics(const Config& value, const char* what) const {
    if (says_nothing(value)) return {};
    if (output_count() == 1) {
      std::vector<Config> list;
      flatten(value, what, list);
      return {std::move(list)};
    }
    if (is_single(value)) return {{value}};
    std::vector<std::vector<Config>> metrics;
    const std::vector<const Config*> entries = by_output(value, what);
    for (const Config* entry : entries) {
      metrics.push_back(entry == nullptr ? std::vector<Config>{}
                                         : metric_list(unwrap_tuple(*entry)));
      if (entry == nullptr || std::ranges::count(entries, entry) == 1) continue;
      // One entry of a dictionary for outputs of one name: its objects are the same for all.
      const auto first = std::ranges::find(entries, entry) - entries.begin();
      for (size_t i = 0; i < metrics.back().size(); ++i) {
        number_object(metrics.back()[i], fmt::format("{} {}, {}", what, first, i));
      }
    }
    return metrics;
  }

  static void number_object(Config& metric, const std::string& number) {
    if (!metric.is_object() || metric.find("config") == nullptr) return;
    if (!metric.at("config").is_object()) return;  // a function: each output makes its own of it
    const Config* known = metric.find(layers::kSharedObject);
    if (known == nullptr || known->is_null())
      metric.set(std::string(layers::kSharedObject), number);
  }

  // The metrics of a single output, however they are nested.
  void flatten(const Config& given, const char* what, std::vector<Config>& list) const {
    const Config& value = unwrap_tuple(given);
    if (is_single(value)) {
      list.push_back(value);
    } else if (value.is_array()) {
      for (const Config& item : value.as_array()) flatten(item, what, list);
    } else if (value.is_object()) {
      for (const auto& [name, item] : value.as_object()) flatten(item, what, list);
    } else if (!value.is_null()) {
      source_.refuse(what, "a name or a serialized object", excerpt(value));
    }
  }

  std::vector<Config> metric_list(const Config& value) const {
    if (value.is_null()) return {};
    if (is_single(value)) return {value};
    if (!value.is_array()) source_.refuse("metrics", "a list of metrics", excerpt(value));
    std::vector<Config> list;
    for (const Config& item : value.as_array()) list.push_back(single(item, "metrics"));
    return list;
  }

  const Model& model_;
  const JsonSource& source_;
};

// A name stays a name, and so does what is not known; an object gets Keras 3's class and module.
Config write_object(const Config& value, std::string_view what, std::string_view module,
                    const std::vector<std::string>& known,
                    std::string (*class_of)(const std::string& name)) {
  if (!value.is_object()) return value;
  layers::Spelling object = layers::read_object(value, what);
  const std::string class_name = class_of(object.name);
  if (std::ranges::find(known, class_name) == known.end()) return value;
  Config written = keras_object(module, class_name, std::move(object.arguments));
  if (const Config* number = value.find(layers::kSharedObject)) {
    written.set(std::string(layers::kSharedObject), *number);
  }
  return written;
}

Config write_loss(const Config& value) {
  return write_object(value, "loss", "keras.losses", layers::loss_class_names(),
                      layers::loss_class);
}

Config write_metrics(const std::vector<Config>& metrics) {
  Config::Array list;
  for (const Config& metric : metrics) {
    list.push_back(write_object(metric, "metrics", "keras.metrics", layers::metric_class_names(),
                                layers::metric_class));
  }
  return list;
}

Config write_optimizer(const Config& optimizer) {
  try {
    const layers::Optimizer read = layers::read_optimizer(optimizer);
    layers::Spelling object = layers::read_object(optimizer, "optimizer");
    if (!read.loss_scale) {
      return keras_object("keras.optimizers", read.class_name, std::move(object.arguments));
    }
    std::erase_if(object.arguments, [](const auto& one) { return one.first == "dynamic"; });
    for (auto& [key, value] : object.arguments) {
      if (key == "inner_optimizer") value = write_optimizer(value);
    }
    return keras_object("keras.optimizers", layers::kLossScaleClass, std::move(object.arguments));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) throw;
    return optimizer;
  }
}

// One entry per output; one that serves all is repeated.
template <typename Entry, typename Write>
Config write_by_output(const std::vector<Entry>& entries, const Model& model, const Write& write) {
  if (entries.empty()) return {};
  Config::Array list;
  for (size_t i = 0; i < model.outputs().size(); ++i) {
    list.push_back(write(entries[std::min(i, entries.size() - 1)]));
  }
  if (list.size() == 1) return list.front();
  return list;
}

}  // namespace

std::optional<CompileOptions> read_compile(const Config& compile_config, const Model& model,
                                           const std::string& origin) {
  if (!compile_config.is_object() || compile_config.as_object().empty()) return std::nullopt;
  return CompileReader(model, JsonSource(origin)).read(compile_config);
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
  if (!compile.optimizer.is_null()) config.set("optimizer", write_optimizer(compile.optimizer));
  config.set("loss", write_by_output(compile.losses, model, write_loss));
  config.set("loss_weights", write_by_output(compile.loss_weights, model,
                                             [](double weight) { return Config(weight); }));
  config.set("metrics", write_by_output(compile.metrics, model, write_metrics));
  config.set("weighted_metrics", write_by_output(compile.weighted_metrics, model, write_metrics));
  config.set("run_eagerly", false);
  config.set("steps_per_execution", 1);
  config.set("jit_compile", false);
  if (compile.unread.is_object()) {
    for (const auto& [key, value] : compile.unread.as_object()) config.set(key, value);
  }
  return config;
}

}  // namespace plimsoll::formats
