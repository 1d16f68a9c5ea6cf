// The command line's spellings of optimizer, loss and metrics, checked as early as possible.

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/error.h"
#include "layers/config/spelling.h"
#include "layers/training/losses.h"
#include "layers/training/metrics.h"
#include "layers/training/optimizers.h"
#include "layers/training/programs.h"

namespace plimsoll::layers {
namespace {

// What stands on a command line is a matter of usage, not of the model.
template <typename Check>
void check_usage(std::string_view what, Check&& check) {
  try {
    check();
  } catch (const Error& error) {
    throw Error(ErrorKind::kConfig, std::string(what) + ": " + error.message());
  }
}

void forget(Config& unread, std::initializer_list<std::string_view> keys) {
  if (!unread.is_object()) return;
  Config::Object kept;
  for (const auto& [key, value] : unread.as_object()) {
    if (std::ranges::find(keys, key) == keys.end()) kept.emplace_back(key, value);
  }
  unread = kept.empty() ? Config() : Config(std::move(kept));
}

ValueType some_output(int64_t columns) {
  return {DType::kFloat32, Shape({Dim::batch(), Dim::constant(columns)})};
}
ValueType some_steps() {
  return {DType::kFloat32, Shape({Dim::batch(), Dim::constant(2), Dim::constant(2)})};
}

}  // namespace

Config parse_optimizer(std::string_view text) {
  Spelling spelling = parse_spelling(text, "--optimizer");
  Optimizer optimizer;
  check_usage("--optimizer",
              [&] { optimizer = read_optimizer(make_object(spelling.name, spelling.arguments)); });
  return make_object(optimizer.class_name, std::move(spelling.arguments));
}

Config parse_loss(std::string_view text) {
  Spelling spelling = parse_spelling(text, "--loss");
  if (spelling.name == "crossentropy" || spelling.name == "ce") {
    return make_object(spelling.name, std::move(spelling.arguments));  // by the output's shape
  }
  Config::Object checked = spelling.arguments;
  // Which axis is the last one is known with the model.
  std::erase_if(checked, [](const auto& item) { return item.first == "axis"; });
  const std::string class_name = loss_class(spelling.name);
  const Config object = make_object(class_name, std::move(checked));
  const ValueType output = names_label_sequences(object) ? some_steps() : some_output(2);
  check_usage("--loss", [&] { read_loss(object, output); });
  return make_object(class_name, std::move(spelling.arguments));
}

Config parse_metric(std::string_view text) {
  Spelling spelling = parse_spelling(text, "--metrics");
  const Config metric = spelling.arguments.empty()
                            ? Config(spelling.name)
                            : make_object(metric_class(spelling.name), spelling.arguments);
  check_usage("--metrics", [&] {
    // Whether it fits the labels is asked when the model is known.
    const bool sparse = metric_is_sparse(spelling.name) || names_sparse_loss(Config(spelling.name));
    Loss loss;
    if (sparse) loss.kind = LossKind::kSparseCategoricalCrossentropy;
    read_metric(metric, loss, some_output(2));
  });
  return metric;
}

void replace_losses(CompileOptions& compile, std::vector<Config> losses) {
  compile.losses = std::move(losses);
  compile.loss_weights.clear();
  compile.unread_loss.clear();
  forget(compile.unread, {"loss", "loss_weights"});
}

void replace_metrics(CompileOptions& compile, std::vector<Config> metrics) {
  compile.metrics = {std::move(metrics)};
  compile.weighted_metrics.clear();
  compile.skips_metrics = false;
  forget(compile.unread, {"metrics", "weighted_metrics"});
}

}  // namespace plimsoll::layers
