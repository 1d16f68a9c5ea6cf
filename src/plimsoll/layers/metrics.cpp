#include "layers/metrics.h"

#include <array>

#include "base/error.h"
#include "base/suggest.h"
#include "layers/names.h"
#include "layers/option_reader.h"
#include "layers/spelling.h"

namespace plimsoll::layers {
namespace {

using graph::GraphBuilder;
using graph::ValueId;

// Which labels a metric reads.
enum class Labels : uint8_t { kDense, kClassNumbers };

struct Row {
  std::string_view op;  // also Keras's snake-case name
  std::string_view class_name;
  std::string_view short_name;
  Labels labels;
  bool target_first;
};

constexpr std::array<Row, 5> kRows = {{
    {"binary_accuracy", "BinaryAccuracy", "", Labels::kDense, true},
    {"categorical_accuracy", "CategoricalAccuracy", "", Labels::kDense, true},
    {"sparse_categorical_accuracy", "SparseCategoricalAccuracy", "", Labels::kClassNumbers, true},
    {"mean_squared_error", "MeanSquaredError", "mse", Labels::kDense, false},
    {"mean_absolute_error", "MeanAbsoluteError", "mae", Labels::kDense, false},
}};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

bool is_plain_accuracy(const Config& config, const std::string& name) {
  const bool by_name =
      !config.is_object() || config.find("config") == nullptr || !config.at("config").is_object();
  return by_name && (lower(name) == "accuracy" || lower(name) == "acc");
}

// keras.src.trainers.compile_utils.get_metric
const Row& accuracy_row(const Loss& loss, const ValueType& output) {
  if (output.shape[output.shape.rank() - 1].count == 1) return kRows[0];
  return is_sparse(loss) ? kRows[2] : kRows[1];
}

const Row* find_row(const std::string& name) {
  for (const Row& row : kRows) {
    const bool is_short = !row.short_name.empty() && lower(name) == row.short_name;
    if (name == row.op || name == row.class_name || is_short) return &row;
  }
  return nullptr;
}

const Row& row_of(const std::string& name) {
  if (const Row* row = find_row(name)) return *row;
  throw Error(ErrorKind::kModel,
              "metrics: expected accuracy, binary_accuracy, categorical_accuracy, "
              "sparse_categorical_accuracy, mse or mae, received \"" +
                  name + "\"." + did_you_mean(name, metric_names()));
}

void check_labels(const Row& row, const std::string& name, const Loss& loss) {
  const bool numbers = row.labels == Labels::kClassNumbers;
  if (numbers == is_sparse(loss)) return;
  throw Error(ErrorKind::kModel,
              "metric " + name + ": expected " +
                  (numbers ? "labels that are class numbers" : "labels of the output's shape") +
                  ", received those of the loss " + loss.name + ". Use accuracy, which fits them.");
}

ValueId declare(GraphBuilder& builder, const std::string& name) {
  return builder.read(builder.state(
      {.name = name, .type = {DType::kFloat32, Shape()}, .role = graph::StateRole::kMetric}));
}

// State `name` grows by `value`.
void add_to(GraphBuilder& builder, const std::string& name, ValueId value) {
  const ValueId before = declare(builder, name);
  const ValueId after = builder.call("add", name + "/next", {before, value});
  builder.write(find_state(builder.graph(), name), after);
}

}  // namespace

std::string metric_state(std::string_view metric, std::string_view part) {
  return "metrics/" + std::string(metric) + "/" + std::string(part);
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names = {"accuracy", "acc", "mse", "mae"};
  for (const Row& row : kRows) {
    names.emplace_back(row.op);
    names.emplace_back(row.class_name);
  }
  return names;
}

std::string metric_class(const std::string& name) {
  const Row* row = find_row(name);
  return row == nullptr ? name : std::string(row->class_name);
}

Metric read_metric(const Config& config, const Loss& loss, const ValueType& output) {
  const Spelling given = read_object(config, "metrics");
  const bool plain = is_plain_accuracy(config, given.name);
  const Row& row = plain ? accuracy_row(loss, output) : row_of(given.name);
  OptionReader options(given.arguments, given.name);
  Metric metric;
  metric.op = row.op;
  metric.target_first = row.target_first;
  const std::string fallback = given.name == row.class_name ? std::string(row.op) : given.name;
  metric.name = options.text("name", fallback);
  options.ignore("dtype");
  if (row.op == "binary_accuracy") metric.threshold = options.number("threshold", 0.5, -1e30, 1e30);
  options.finish();
  check_labels(row, metric.name, loss);
  return metric;
}

void add_metric(GraphBuilder& builder, const Metric& metric, const std::string& name,
                ValueId prediction, ValueId target) {
  builder.set_stage(graph::Stage::kMetric);
  const std::string prefix = "metrics/" + name;
  graph::Attributes attributes;
  if (metric.op == "binary_accuracy") attributes.set("threshold", metric.threshold);
  const ValueId rows =
      metric.target_first
          ? builder.call(metric.op, prefix + "/rows", {target, prediction}, attributes)
          : builder.call(metric.op, prefix + "/rows", {prediction, target}, attributes);
  ValueId sum = builder.call("batch_sum", prefix + "/sum", {rows});
  const int64_t per_sample = builder.type(rows).shape.elements_per_sample();
  if (per_sample > 1) {
    sum = builder.call("scale_shift", prefix + "/mean", {sum},
                       {{"scale", 1.0 / static_cast<double>(per_sample)}, {"offset", 0.0}});
  }
  add_to(builder, metric_state(name, "total"), sum);
  add_to(builder, metric_state(name, "count"),
         builder.call("batch_count", prefix + "/batch", {}, {{"elements_per_sample", 1}}));
}

void add_loss_tracker(GraphBuilder& builder, const std::string& name, ValueId loss) {
  builder.set_stage(graph::Stage::kMetric);
  const std::string prefix = "metrics/" + name;
  const ValueId batch =
      builder.call("batch_count", prefix + "/batch", {}, {{"elements_per_sample", 1}});
  add_to(builder, metric_state(name, "total"),
         builder.call("multiply", prefix + "/weighted", {loss, batch}));
  add_to(builder, metric_state(name, "count"), batch);
}

}  // namespace plimsoll::layers
