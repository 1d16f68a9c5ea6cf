#include "formats/model_check.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/format.h"
#include "formats/keras/keras_legacy.h"
#include "formats/keras/layer_names.h"
#include "formats/keras/tensorflow_functions.h"
#include "formats/model_document.h"
#include "layers/model/layer.h"
#include "layers/model/layer_traits.h"
#include "layers/training/losses.h"
#include "layers/training/metrics.h"
#include "layers/training/optimizers.h"

namespace plimsoll::formats {
namespace {

using layers::Config;

constexpr int kMaxDepth = 32;

class Checker {
 public:
  explicit Checker(CheckReport& report) : report_(report) {}

  // Runs a step; what it refuses becomes a reason, once.
  bool attempt(const std::function<void()>& step) {
    try {
      step();
      return true;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kIo || error.kind() == ErrorKind::kInternal) throw;
      add(error.message());
      return false;
    }
  }

  // Each layer of a model's configuration by itself.
  bool check_layers(const Config& json, const JsonSource& source, int depth) {
    const Config* config = json.find("config");
    const Config& body = config == nullptr ? json : *config;
    const Config* list = body.is_array() ? &body : body.find("layers");
    if (list == nullptr || !list->is_array() || depth > kMaxDepth) return true;
    LayerNames names;
    for (const Config& json : list->as_array()) {
      const Config* own = json.is_object() ? json.find("config") : nullptr;
      const Config* name = own != nullptr && own->is_object() ? own->find("name") : nullptr;
      if (name != nullptr && name->is_string()) names.add(name->as_string());
    }
    bool good = true;
    for (size_t i = 0; i < list->as_array().size(); ++i) {
      good = check_layer(list->as_array()[i], i, source, depth, names) && good;
    }
    return good;
  }

 private:
  bool check_layer(const Config& json, size_t position, const JsonSource& source, int depth,
                   LayerNames& names) {
    bool good = true;
    const bool read = attempt([&] {
      LayerEntry entry = source.read_entry(json, position);
      if (entry.kind == EntryKind::kModel) good = check_layers(json, source, depth + 1);
      if (entry.kind != EntryKind::kLayer || entry.class_name == layers::kInputLayer) return;
      if (is_tensorflow_function(entry.class_name)) {
        check_tensorflow_function(entry, source);
        return;
      }
      modernize(entry, source);
      if (entry.name.empty()) entry.config.set("name", names.make(entry.class_name));
      layers::make_layer(entry.class_name, entry.config);
    });
    return read && good;
  }

  // The same thing may be found by itself and again while loading, where the file is named in
  // front.
  void add(const std::string& reason) {
    const bool known =
        std::any_of(report_.reasons.begin(), report_.reasons.end(), [&](const std::string& other) {
          return other.ends_with(reason) || reason.ends_with(other);
        });
    if (!known) report_.reasons.push_back(reason);
  }

  CheckReport& report_;
};

void check_compile(Checker& checker, const layers::CompileOptions& compile,
                   const layers::Model& model) {
  if (!compile.optimizer.is_null()) {
    checker.attempt([&] { layers::read_optimizer(compile.optimizer); });
  }
  for (size_t i = 0; i < model.outputs().size() && !compile.losses.empty(); ++i) {
    const Config& loss = compile.losses[std::min(i, compile.losses.size() - 1)];
    checker.attempt([&] { layers::read_loss(loss, model.outputs()[i].type); });
  }
}

}  // namespace

CheckReport check_model(const std::string& path, const LoadOptions& options) {
  CheckReport report;
  Checker checker(report);
  Config document;
  const std::string origin = path;
  if (!checker.attempt([&] { document = read_document(path); })) return report;
  const JsonSource source(origin);
  if (!checker.check_layers(document, source, 0)) return report;
  checker.attempt([&] {
    const LoadedModel loaded = load_model(path, options);
    report.has_weights = loaded.weights != nullptr;
    report.is_compiled = loaded.compile.has_value() && !loaded.compile->optimizer.is_null();
    const layers::CompileOptions compile = loaded.compile.value_or(layers::CompileOptions{});
    check_compile(checker, compile, loaded.model);
    if (!report.reasons.empty()) return;
    layers::BatchSizes batches{.predict = 1};
    if (report.is_compiled && !compile.losses.empty()) batches.train = 1;
    layers::build_programs(loaded.model, compile, batches);
    if (batches.train > 0) report.notes = layers::left_out_metrics(loaded.model, compile);
    std::string note = layers::precision_note(loaded.model, compile.precision);
    if (!note.empty()) report.notes.push_back(std::move(note));
  });
  return report;
}

}  // namespace plimsoll::formats
