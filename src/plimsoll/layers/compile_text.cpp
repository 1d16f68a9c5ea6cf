// The command line's spellings of optimizer, loss and metrics, checked as early as possible.

#include "base/error.h"
#include "layers/losses.h"
#include "layers/metrics.h"
#include "layers/optimizers.h"
#include "layers/programs.h"
#include "layers/spelling.h"

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

ValueType some_output(int64_t columns) {
  return {DType::kFloat32, Shape({Dim::batch(), Dim::constant(columns)})};
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
  Config loss = make_object(loss_class(spelling.name), std::move(spelling.arguments));
  check_usage("--loss", [&] { read_loss(loss, some_output(2)); });
  return loss;
}

Config parse_metric(std::string_view text) {
  Spelling spelling = parse_spelling(text, "--metrics");
  const Config metric = spelling.arguments.empty()
                            ? Config(spelling.name)
                            : make_object(metric_class(spelling.name), spelling.arguments);
  check_usage("--metrics", [&] {
    // Whether it fits the labels is asked when the model is known.
    const bool sparse = metric_class(spelling.name) == "SparseCategoricalAccuracy";
    Loss loss;
    if (sparse) loss.kind = LossKind::kSparseCategoricalCrossentropy;
    read_metric(metric, loss, some_output(2));
  });
  return metric;
}

}  // namespace plimsoll::layers
