#include "layers/training/metrics.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "layers/config/names.h"
#include "layers/config/option_reader.h"
#include "layers/config/spelling.h"
#include "layers/model/masking.h"
#include "layers/training/curve_area.h"
#include "ops/rules.h"

namespace plimsoll::layers {
namespace {

using graph::GraphBuilder;
using graph::ValueId;

// Which labels a metric reads.
enum class Labels : uint8_t { kDense, kClassNumbers };

struct Row {
  std::string_view op;  // also Keras's snake-case name, where `name` says no other
  std::string_view class_name;
  std::string_view short_name;
  Labels labels;
  bool target_first;
  std::string_view name = "";
};

constexpr std::array kRows = {
    Row{"binary_accuracy", "BinaryAccuracy", "", Labels::kDense, true},
    Row{"categorical_accuracy", "CategoricalAccuracy", "", Labels::kDense, true},
    Row{"sparse_categorical_accuracy", "SparseCategoricalAccuracy", "", Labels::kClassNumbers,
        true},
    Row{"mean_squared_error", "MeanSquaredError", "mse", Labels::kDense, false},
    Row{"mean_absolute_error", "MeanAbsoluteError", "mae", Labels::kDense, false},
    Row{"mean_absolute_percentage_error", "MeanAbsolutePercentageError", "mape", Labels::kDense,
        false},
    Row{"mean_squared_logarithmic_error", "MeanSquaredLogarithmicError", "msle", Labels::kDense,
        false},
    Row{"mean_squared_error", "RootMeanSquaredError", "", Labels::kDense, false,
        "root_mean_squared_error"},
    Row{"top_k_categorical_accuracy", "TopKCategoricalAccuracy", "", Labels::kDense, true},
    Row{"sparse_top_k_categorical_accuracy", "SparseTopKCategoricalAccuracy", "",
        Labels::kClassNumbers, true},
    Row{"confusion_count", "Precision", "", Labels::kDense, true, "precision"},
    Row{"confusion_count", "Recall", "", Labels::kDense, true, "recall"},
    Row{"confusion_histogram", "AUC", "", Labels::kDense, true, "auc"},
    Row{"hinge", "Hinge", "", Labels::kDense, false},
    Row{"squared_hinge", "SquaredHinge", "", Labels::kDense, false},
    Row{"categorical_hinge", "CategoricalHinge", "", Labels::kDense, false},
    Row{"kl_divergence", "KLDivergence", "kld", Labels::kDense, false},
    Row{"poisson", "Poisson", "", Labels::kDense, false},
    Row{"log_cosh", "LogCoshError", "", Labels::kDense, false, "logcosh"},
    Row{"cosine_similarity", "CosineSimilarity", "", Labels::kDense, false},
};

std::string_view name_of(const Row& row) { return row.name.empty() ? row.op : row.name; }

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

// What older versions of Keras called some.
std::string name_of_today(const std::string& name) {
  if (name == "kullback_leibler_divergence") return "kl_divergence";
  if (name == "cosine_proximity" || name == "CosineProximity") return "cosine_similarity";
  return name;
}

const Row* find_row(const std::string& given) {
  const std::string name = name_of_today(given);
  for (const Row& row : kRows) {
    const bool is_short = !row.short_name.empty() && lower(name) == row.short_name;
    const bool is_long = name == name_of(row) || name == row.class_name;
    if (is_short || is_long || name == snake_case(row.class_name)) return &row;
  }
  return nullptr;
}

const Row& row_of(const std::string& name) {
  if (const Row* row = find_row(name)) return *row;
  throw Error(ErrorKind::kModel,
              "metrics: expected the name of a metric, such as accuracy, mae or precision, "
              "received \"" +
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

template <size_t N>
std::string one_of(OptionReader& options, const std::string& key,
                   const std::array<std::string_view, N>& names) {
  const std::string given = options.text(key, std::string(names[0]));
  if (std::ranges::find(names, given) == names.end()) {
    std::string known;
    for (std::string_view name : names) known += (known.empty() ? "" : " or ") + std::string(name);
    options.refuse(key, known, Config(given));
  }
  return given;
}

void read_curve(OptionReader& options, Metric& metric) {
  constexpr double kMostThresholds = 1e6;
  metric.attributes.set("thresholds", static_cast<int64_t>(options.number("num_thresholds", 200, 2,
                                                                          kMostThresholds)));
  metric.curve = one_of(options, "curve", kCurves);
  metric.summation = one_of(options, "summation_method", kSummations);
  metric.from_logits = options.flag("from_logits", false);
  options.refuse_unless_empty("thresholds", "Give num_thresholds: they lie evenly.");
  options.refuse_unless_empty("multi_label", "Leave it out: all outputs count together.");
  options.refuse_unless_empty("num_labels", "Leave it out: all outputs count together.");
  options.refuse_unless_empty("label_weights", "Leave it out: all outputs count alike.");
}

// What a metric has besides its name.
void read_own_options(OptionReader& options, const Row& row, const ValueType& output,
                      Metric& metric) {
  const int last = output.shape.rank() - 1;
  constexpr double kNoBound = 1e30;
  if (row.op == "binary_accuracy") {
    metric.attributes.set("threshold", options.number("threshold", 0.5, -kNoBound, kNoBound));
  }
  if (row.op.ends_with("top_k_categorical_accuracy")) {
    metric.attributes.set("k", static_cast<int64_t>(options.number("k", 5, 1, 1e9)));
  }
  if (row.op == "confusion_count") {
    metric.counted = row.class_name == "Precision" ? "predicted" : "actual";
    metric.attributes.set("threshold",
                          options.optional_number("thresholds", -kNoBound, kNoBound).value_or(0.5));
    options.refuse_unless_empty("top_k", "Leave it out: a prediction counts by its threshold.");
    options.refuse_unless_empty("class_id", "Leave it out: all outputs count together.");
  }
  if (row.op == "cosine_similarity") {
    metric.factor = -1;  // the loss is the negative of it
    const double axis = options.optional_number("axis", -1e9, 1e9).value_or(-1);
    if (axis != -1 && axis != last) {
      options.refuse("axis", fmt::format("-1 or {}", last), Config(static_cast<int64_t>(axis)),
                     "Put the numbers last.");
    }
  }
  if (row.op == "confusion_histogram") read_curve(options, metric);
  metric.root = row.class_name == "RootMeanSquaredError";
}

// State `name` grows by `value`.
void add_to(GraphBuilder& builder, const std::string& name, ValueId value) {
  const ValueId before = builder.read(builder.state(
      {.name = name, .type = builder.type(value), .role = graph::StateRole::kMetric}));
  const ValueId after = builder.call("add", name + "/next", {before, value});
  builder.write(find_state(builder.graph(), name), after);
}

std::vector<ValueId> with_weights(ValueId rows, ValueId weights) {
  return weights.valid() ? std::vector<ValueId>{rows, weights} : std::vector<ValueId>{rows};
}

// Values of fewer dimensions, or of dimensions of 1, in the shape of the metric's rows.
ValueId repeated(GraphBuilder& builder, const std::string& name, ValueId values,
                 const Shape& shape) {
  std::vector<int64_t> dims = ops::sample_dims(builder.type(values).shape);
  const std::vector<int64_t> wanted = ops::sample_dims(shape);
  if (dims == wanted) return values;
  if (dims.size() < wanted.size()) {
    dims.resize(wanted.size(), 1);
    values = builder.call("reshape", name + "_rows", {values}, {{"shape", dims}});
  }
  return builder.call("broadcast", name, {values}, {{"shape", wanted}});
}

// 1 for rows that count, 0 for others, of the rows' shape; a mask of fewer dimensions repeats.
ValueId counted_rows(GraphBuilder& builder, const std::string& prefix, const ValueType& rows,
                     ValueId mask) {
  mask = without_last_one(builder, prefix + "/mask_column", mask, rows.shape);
  const Shape shape = builder.type(mask).shape;
  const std::vector<int64_t> dims = ops::sample_dims(shape);
  const std::vector<int64_t> wanted = ops::sample_dims(rows.shape);
  if (dims.size() > wanted.size() || !std::equal(dims.begin(), dims.end(), wanted.begin())) {
    throw Error(ErrorKind::kModel,
                fmt::format("{}: expected a mask of the shape {}, received {}. End the mask before "
                            "the output, by a Reshape.",
                            prefix, to_string(rows.shape), to_string(shape)));
  }
  const ValueId counted = builder.call("cast", prefix + "/mask", {mask},
                                       {{"dtype", std::string(to_string(rows.dtype))}});
  return repeated(builder, prefix + "/row_weights", counted, rows.shape);
}

// What the rows count by: (B) where there is one weight a sample and no mask, else of the rows'
// shape; invalid: all alike (losses.loss.apply_mask, metrics.reduce_to_samplewise_values).
ValueId row_weights(GraphBuilder& builder, const std::string& prefix, ValueId rows,
                    const LossWeights& given) {
  const ValueType type = builder.type(rows);
  if (!given.mask.valid()) {
    const bool plain = !given.samples.valid() || builder.type(given.samples).shape.rank() == 1;
    return plain ? given.samples
                 : repeated(builder, prefix + "/weights", given.samples, type.shape);
  }
  const ValueId counted = counted_rows(builder, prefix, type, given.mask);
  if (!given.samples.valid()) return counted;
  const ValueId samples = repeated(builder, prefix + "/weights", given.samples, type.shape);
  return builder.call("multiply", prefix + "/weighted_rows", {samples, counted});
}

}  // namespace

std::string metric_title(const Config& config) {
  const Spelling given = read_object(config, "metrics");
  for (const auto& [key, value] : given.arguments) {
    if (key == "name" && value.is_string() && value.as_string() != given.name) {
      return value.as_string() + " (" + given.name + ")";
    }
  }
  return given.name;
}

void check_weighted(const Metric& metric, const ValueType& output) {
  const bool counts = !metric.counted.empty() || !metric.curve.empty();
  if (!counts || output.shape.rank() == 2) return;
  throw Error(ErrorKind::kModel,
              fmt::format("metric {}: expected an output of rank 2 together with sample weights, "
                          "received {}. Give it among the metrics that are not weighted.",
                          metric.name, to_string(output.shape)));
}

std::string metric_state(std::string_view metric, std::string_view part) {
  return "metrics/" + std::string(metric) + "/" + std::string(part);
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names = {"accuracy", "acc", "mse", "mae"};
  for (const Row& row : kRows) {
    names.emplace_back(name_of(row));
    names.emplace_back(row.class_name);
  }
  return names;
}

std::vector<std::string> metric_class_names() {
  std::vector<std::string> names;
  names.reserve(kRows.size());
  for (const Row& row : kRows) names.emplace_back(row.class_name);
  return names;
}

bool metric_is_sparse(const std::string& class_name) {
  const Row* row = find_row(class_name);
  return row != nullptr && row->labels == Labels::kClassNumbers;
}

std::string metric_class(const std::string& name) {
  const Row* row = find_row(name);
  return row == nullptr ? name : std::string(row->class_name);
}

Metric read_metric(const Config& config, const Loss& loss, const ValueType& output,
                   std::vector<Option>* list) {
  const Spelling given = read_object(config, "metrics");
  const bool plain = is_plain_accuracy(config, given.name);
  const Row& row = plain ? accuracy_row(loss, output) : row_of(given.name);
  OptionReader options(given.arguments, given.name, list);
  Metric metric;
  metric.op = row.op;
  metric.target_first = row.target_first;
  const std::string fallback =
      given.name == row.class_name ? std::string(name_of(row)) : given.name;
  metric.name = options.text("name", fallback);
  options.ignore("dtype");
  read_own_options(options, row, output, metric);
  options.finish();
  check_labels(row, metric.name, loss);
  return metric;
}

void add_metric(GraphBuilder& builder, const Metric& metric, const std::string& name,
                ValueId prediction, ValueId target, const LossWeights& given) {
  builder.set_stage(graph::Stage::kMetric);
  const std::string prefix = "metrics/" + name;
  if (!metric.curve.empty()) {
    if (metric.from_logits) {
      prediction = builder.call("activation", prefix + "/probability", {prediction},
                                {{"kind", std::string("sigmoid")}});
    }
    std::vector<ValueId> operands = {target, prediction};
    if (given.samples.valid()) operands.push_back(given.samples);
    add_to(builder, metric_state(name, "total"),
           builder.call(metric.op, prefix + "/histogram", operands, metric.attributes));
    return;
  }
  if (!metric.counted.empty()) {
    const auto count = [&](const std::string& part, std::string_view what) {
      graph::Attributes attributes = metric.attributes;
      attributes.set("counts", std::string(what));
      const ValueId rows =
          builder.call(metric.op, prefix + "/" + part + "_rows", {target, prediction}, attributes);
      add_to(builder, metric_state(name, part),
             builder.call("batch_sum", prefix + "/" + part + "_sum",
                          with_weights(rows, given.samples)));
    };
    count("total", "hits");
    count("count", metric.counted);
    return;
  }
  const ValueId rows =
      metric.target_first
          ? builder.call(metric.op, prefix + "/rows", {target, prediction}, metric.attributes)
          : builder.call(metric.op, prefix + "/rows", {prediction, target}, metric.attributes);
  const Shape& shape = builder.type(rows).shape;
  const auto per_sample = static_cast<double>(shape.elements_per_sample());
  const auto mean = [&](const std::string& what, ValueId sum, double scale) {
    if (scale == 1) return sum;
    return builder.call("scale_shift", prefix + what, {sum}, {{"scale", scale}, {"offset", 0.0}});
  };
  const LossWeights looked_at{given.samples, metric.root ? ValueId() : given.mask};
  const ValueId weights = row_weights(builder, prefix, rows, looked_at);
  const ValueId sum = builder.call("batch_sum", prefix + "/sum", with_weights(rows, weights));
  add_to(builder, metric_state(name, "total"), mean("/mean", sum, metric.factor / per_sample));
  if (!weights.valid()) {
    add_to(builder, metric_state(name, "count"),
           builder.call("batch_count", prefix + "/batch", {}, {{"elements_per_sample", 1}}));
    return;
  }
  const ValueId weight = builder.call("batch_sum", prefix + "/weight_sum", {weights});
  const bool one = builder.type(weights).shape.rank() == 1;
  add_to(builder, metric_state(name, "count"),
         mean("/mean_weight", weight, one ? 1 : 1 / per_sample));
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
