#include "layers/metric.h"

#include <array>

#include "base/error.h"
#include "layers/config_reader.h"
#include "layers/spec.h"

namespace plimsoll::layers {
namespace {

constexpr std::array kMetrics = {
    KnownName{"Accuracy", "accuracy acc"},
    KnownName{"BinaryAccuracy", "binary_accuracy"},
    KnownName{"CategoricalAccuracy", "categorical_accuracy"},
    KnownName{"SparseCategoricalAccuracy", "sparse_categorical_accuracy"},
    KnownName{"MeanSquaredError", "mean_squared_error mse"},
    KnownName{"MeanAbsoluteError", "mean_absolute_error mae"},
};

std::string operator_of(const std::string& class_name) {
  for (const KnownName& known : kMetrics) {
    if (known.class_name == class_name) {
      return std::string(known.aliases.substr(0, known.aliases.find(' ')));
    }
  }
  return class_name;
}

graph::StateVariable scalar_state(std::string name) {
  graph::StateVariable variable;
  variable.name = std::move(name);
  variable.role = graph::StateRole::kMetric;
  return variable;
}

void accumulate(graph::GraphBuilder& builder, const std::string& state, graph::ValueId value) {
  const graph::StateId id = builder.state(scalar_state(state));
  builder.write(id, builder.call("add", state, {builder.read(id), value}));
}

MetricState state_of(const std::string& name) {
  return {name, "metrics/" + name + "/total", "metrics/" + name + "/count"};
}

// Keras: is_binary_or_sparse_categorical.
std::string resolve_accuracy(const graph::ValueType& prediction, const graph::ValueType& target) {
  if (prediction.shape.dims().back().count == 1) return "binary_accuracy";
  return is_integer(target.dtype) ? "sparse_categorical_accuracy" : "categorical_accuracy";
}

}  // namespace

Metric::Metric(const Config& value) {
  const Spec spec = read_spec(value, "metric", kMetrics);
  class_name_ = spec.class_name;
  ConfigReader reader(class_name_, spec.config);
  const bool by_name = value.is_string();
  name_ = reader.text("name", by_name ? spec.given : operator_of(class_name_));
  if (class_name_ == "BinaryAccuracy") threshold_ = reader.number("threshold", 0.5);
  reader.refuse_unless_empty("fn", "Name the metric instead.");
  reader.value("dtype", Config());
  reader.finish();
}

MetricState Metric::add(graph::GraphBuilder& builder, const std::string& name,
                        const Prediction& prediction, graph::ValueId target) const {
  builder.set_stage(graph::Stage::kMetric);
  builder.set_layer("");
  const graph::ValueType& value = builder.type(prediction.value);
  const graph::ValueType& wanted = builder.type(target);
  std::string op = operator_of(class_name_);
  if (op == "accuracy") op = resolve_accuracy(value, wanted);
  const bool labels = op == "sparse_categorical_accuracy";
  if (labels != is_integer(wanted.dtype)) {
    throw Error(ErrorKind::kModel,
                "[" + prediction.name + "] metric " + name_ + ": expected " +
                    (labels ? "class numbers" : "one target per output") + ", received " +
                    (labels ? "a target per output" : "class numbers") + " (" +
                    std::string(to_string(wanted.dtype)) + " " + to_string(wanted.shape) +
                    "). Use " +
                    (labels ? "categorical_accuracy." : "sparse_categorical_accuracy."));
  }
  const std::string node = "metrics/" + name;
  graph::ValueId rows;
  if (op.ends_with("accuracy")) {
    graph::Attributes attributes;
    if (op == "binary_accuracy") attributes.set("threshold", threshold_);
    rows = builder.call(op, node, {target, prediction.value}, std::move(attributes));
  } else {
    rows = add_row_error(builder, op, node, prediction.value, target);
  }
  const int64_t elements = builder.type(rows).shape.elements_per_sample();
  const MetricState state = state_of(name);
  accumulate(builder, state.total, builder.call("batch_sum", node + "/sum", {rows}));
  accumulate(builder, state.count,
             builder.call("batch_count", node + "/rows", {}, {{"elements_per_sample", elements}}));
  return state;
}

MetricState add_loss_tracker(graph::GraphBuilder& builder, const std::string& name,
                             graph::ValueId loss) {
  builder.set_stage(graph::Stage::kMetric);
  builder.set_layer("");
  const MetricState state = state_of(name);
  const std::string node = "metrics/" + name;
  const graph::ValueId rows =
      builder.call("batch_count", node + "/rows", {}, {{"elements_per_sample", int64_t{1}}});
  accumulate(builder, state.total, builder.call("multiply", node + "/sum", {loss, rows}));
  accumulate(builder, state.count, rows);
  return state;
}

void add_initial_metric(graph::GraphBuilder& builder, const MetricState& metric) {
  builder.set_stage(graph::Stage::kMetric);
  builder.set_layer("");
  for (const std::string& name : {metric.total, metric.count}) {
    const graph::StateId state = builder.state(scalar_state(name));
    builder.write(state, builder.call("constant", name, {},
                                      {{"shape", std::vector<int64_t>{}}, {"value", 0.0}}));
  }
}

Config parse_metric(std::string_view text) {
  const Config value = parse_spec(text, "--metrics", kMetrics);
  with_context("while reading --metrics", [&] { Metric{value}; });
  return value;
}

}  // namespace plimsoll::layers
