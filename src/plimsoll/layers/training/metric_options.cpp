// Which metrics there are, and what each can be told.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "layers/config/names.h"
#include "layers/config/option_reader.h"
#include "layers/config/spelling.h"
#include "layers/training/curve_area.h"
#include "layers/training/metrics.h"

namespace plimsoll::layers {
namespace {

// Which labels a metric reads.
enum class Labels : uint8_t { kDense, kClassNumbers, kAny };

// How its options are read; the rest of kRows has none.
enum class Options : uint8_t {
  kNone,
  kThreshold,  // of binary accuracy
  kTopK,
  kLastAxis,
  kLoss,    // those of the loss of the same class
  kCounts,  // of hits or misses at thresholds
  kCurve,
  kBest,
  kFScore,
  kR2,
  kIou,
};

struct Row {
  std::string_view op;  // also Keras's snake-case name, where `name` says no other
  std::string_view class_name;
  std::string_view short_name;
  Labels labels;
  bool target_first;
  std::string_view name = "";
  Options options = Options::kNone;
};

constexpr Labels kDense = Labels::kDense;

constexpr std::array kRows = {
    Row{"binary_accuracy", "BinaryAccuracy", "", kDense, true, "", Options::kThreshold},
    Row{"categorical_accuracy", "CategoricalAccuracy", "", kDense, true},
    Row{"sparse_categorical_accuracy", "SparseCategoricalAccuracy", "", Labels::kClassNumbers,
        true},
    Row{"equal_share", "Accuracy", "", kDense, true, "accuracy"},
    Row{"mean_squared_error", "MeanSquaredError", "mse", kDense, false},
    Row{"mean_absolute_error", "MeanAbsoluteError", "mae", kDense, false},
    Row{"mean_absolute_percentage_error", "MeanAbsolutePercentageError", "mape", kDense, false},
    Row{"mean_squared_logarithmic_error", "MeanSquaredLogarithmicError", "msle", kDense, false},
    Row{"mean_squared_error", "RootMeanSquaredError", "", kDense, false, "root_mean_squared_error"},
    Row{"top_k_categorical_accuracy", "TopKCategoricalAccuracy", "", kDense, true, "",
        Options::kTopK},
    Row{"sparse_top_k_categorical_accuracy", "SparseTopKCategoricalAccuracy", "",
        Labels::kClassNumbers, true, "", Options::kTopK},
    Row{"confusion_histogram", "TruePositives", "", kDense, true, "true_positives",
        Options::kCounts},
    Row{"confusion_histogram", "TrueNegatives", "", kDense, true, "true_negatives",
        Options::kCounts},
    Row{"confusion_histogram", "FalsePositives", "", kDense, true, "false_positives",
        Options::kCounts},
    Row{"confusion_histogram", "FalseNegatives", "", kDense, true, "false_negatives",
        Options::kCounts},
    Row{"confusion_histogram", "Precision", "", kDense, true, "precision", Options::kCounts},
    Row{"confusion_histogram", "Recall", "", kDense, true, "recall", Options::kCounts},
    Row{"confusion_histogram", "PrecisionAtRecall", "", kDense, true, "precision_at_recall",
        Options::kBest},
    Row{"confusion_histogram", "RecallAtPrecision", "", kDense, true, "recall_at_precision",
        Options::kBest},
    Row{"confusion_histogram", "SensitivityAtSpecificity", "", kDense, true,
        "sensitivity_at_specificity", Options::kBest},
    Row{"confusion_histogram", "SpecificityAtSensitivity", "", kDense, true,
        "specificity_at_sensitivity", Options::kBest},
    Row{"confusion_histogram", "AUC", "", kDense, true, "auc", Options::kCurve},
    Row{"column_sums", "F1Score", "", kDense, true, "f1_score", Options::kFScore},
    Row{"column_sums", "FBetaScore", "", kDense, true, "fbeta_score", Options::kFScore},
    Row{"column_sums", "R2Score", "", kDense, true, "r2_score", Options::kR2},
    Row{"class_pairs", "IoU", "", Labels::kAny, true, "io_u", Options::kIou},
    Row{"class_pairs", "BinaryIoU", "", Labels::kAny, true, "binary_io_u", Options::kIou},
    Row{"class_pairs", "MeanIoU", "", Labels::kAny, true, "mean_io_u", Options::kIou},
    Row{"class_pairs", "OneHotIoU", "", kDense, true, "one_hot_io_u", Options::kIou},
    Row{"class_pairs", "OneHotMeanIoU", "", kDense, true, "one_hot_mean_io_u", Options::kIou},
    Row{"hinge", "Hinge", "", kDense, false},
    Row{"squared_hinge", "SquaredHinge", "", kDense, false},
    Row{"categorical_hinge", "CategoricalHinge", "", kDense, false},
    Row{"kl_divergence", "KLDivergence", "kld", kDense, false},
    Row{"poisson", "Poisson", "", kDense, false},
    Row{"log_cosh", "LogCoshError", "", kDense, false, "logcosh"},
    Row{"cosine_similarity", "CosineSimilarity", "", kDense, false, "", Options::kLastAxis},
    Row{"pearson_correlation", "PearsonCorrelation", "", kDense, false, "", Options::kLastAxis},
    Row{"concordance_correlation", "ConcordanceCorrelation", "", kDense, false, "",
        Options::kLastAxis},
    Row{"", "BinaryCrossentropy", "bce", kDense, false, "binary_crossentropy", Options::kLoss},
    Row{"", "CategoricalCrossentropy", "", kDense, false, "categorical_crossentropy",
        Options::kLoss},
    Row{"", "SparseCategoricalCrossentropy", "", Labels::kClassNumbers, false,
        "sparse_categorical_crossentropy", Options::kLoss},
};

constexpr double kNoBound = 1e30;
// What is told of the counts is worked out outside of the arena: it must stay small.
constexpr double kMostThresholds = 1e5;
constexpr int64_t kMostCounts = 1'000'000;

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
      !config.is_object() || config.find("config") == nullptr || config.at("config").is_null();
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

const Row& row_of(const std::string& name, const Row* known) {
  if (known != nullptr) return *known;
  throw Error(ErrorKind::kModel,
              "metrics: expected the name of a metric, such as accuracy, mae or precision, "
              "received \"" +
                  name + "\"." + did_you_mean(name, metric_names()));
}

void check_labels(const Row& row, const std::string& name, const Loss& loss) {
  const bool numbers = row.labels == Labels::kClassNumbers;
  if (reads_label_sequences(loss)) {
    throw Error(ErrorKind::kModel,
                "metric " + name +
                    ": expected labels that belong to rows of the output, received " +
                    "the sequences of labels of the loss " + loss.name + ". Leave the metric out.");
  }
  if (row.labels == Labels::kAny || numbers == is_sparse(loss)) return;
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

int64_t last_count(const ValueType& output) { return output.shape[output.shape.rank() - 1].count; }

std::optional<int64_t> whole_option(OptionReader& options, const std::string& key, int64_t least,
                                    int64_t most) {
  const std::optional<double> given =
      options.optional_number(key, static_cast<double>(least), static_cast<double>(most));
  if (!given) return std::nullopt;
  if (*given != std::floor(*given)) options.refuse(key, "a whole number", Config(*given));
  return static_cast<int64_t>(*given);
}

// keras.src.metrics.metrics_utils.is_evenly_distributed_thresholds
bool lie_evenly(const std::vector<double>& thresholds) {
  if (thresholds.size() < 3) return false;
  for (size_t i = 0; i < thresholds.size(); ++i) {
    const double even = static_cast<double>(i) / static_cast<double>(thresholds.size() - 1);
    if (std::abs(thresholds[i] - even) > 1e-7 + 1e-5 * even) return false;
  }
  return true;
}

void set_edges(Metric& metric, const std::vector<double>& thresholds) {
  std::vector<int64_t> bits;
  bits.reserve(thresholds.size());
  for (const double edge : thresholds) {
    bits.push_back(std::bit_cast<uint32_t>(static_cast<float>(edge)));
  }
  metric.attributes.set("edges", std::move(bits));
  metric.result.below = true;
}

void set_even(Metric& metric, int64_t thresholds, bool below) {
  metric.attributes.set("thresholds", thresholds);
  if (below) metric.attributes.set("below", true);
  metric.result.below = below;
}

void read_column(OptionReader& options, const ValueType& output, Metric& metric) {
  metric.column = whole_option(options, "class_id", -last_count(output), last_count(output) - 1);
  if (metric.column && *metric.column < 0) *metric.column += last_count(output);
}

// Keras looks up "true_positives" in the class's name, and so on.
void read_counts(OptionReader& options, const Row& row, const ValueType& output, Metric& metric) {
  constexpr double kBelowAll = -1e10;
  metric.result.rule = MetricRule::kCounts;
  metric.result.what = row.name;
  std::vector<double> thresholds = options.numbers("thresholds", 0, 1);
  if (row.class_name == "Precision" || row.class_name == "Recall") {
    metric.top_k = whole_option(options, "top_k", 1, last_count(output));
    read_column(options, output, metric);
  }
  if (thresholds.empty()) thresholds = {metric.top_k ? kBelowAll : 0.5};
  if (lie_evenly(thresholds)) {
    set_even(metric, std::ssize(thresholds), true);
  } else if (std::ranges::is_sorted(thresholds)) {
    set_edges(metric, thresholds);
  } else {
    options.refuse("thresholds", "numbers that rise", Config(thresholds.front()),
                   "Sort them: each has its own number.");
  }
}

void read_best(OptionReader& options, const Row& row, const ValueType& output, Metric& metric) {
  const size_t at = row.name.find("_at_");
  metric.result.rule = MetricRule::kBest;
  metric.result.what = row.name.substr(0, at);
  metric.result.how = row.name.substr(at + 4);
  metric.result.value = options.number(metric.result.how, 0.5, 0, 1);
  const auto thresholds =
      static_cast<int64_t>(options.number("num_thresholds", 200, 1, kMostThresholds));
  read_column(options, output, metric);
  if (thresholds == 1) {
    set_edges(metric, {0.5});
  } else {
    set_even(metric, thresholds, true);
  }
}

void read_curve(OptionReader& options, const ValueType& output, Metric& metric) {
  constexpr double kEpsilon = 1e-7;
  const auto count =
      static_cast<int64_t>(options.number("num_thresholds", 200, 2, kMostThresholds));
  metric.result.rule = MetricRule::kCurve;
  metric.result.what = one_of(options, "curve", kCurves);
  metric.result.how = one_of(options, "summation_method", kSummations);
  metric.from_logits = options.flag("from_logits", false);
  std::vector<double> thresholds = options.numbers("thresholds", 0, 1);
  if (thresholds.empty()) {
    set_even(metric, count, false);
  } else {
    std::ranges::sort(thresholds);
    std::vector<double> bounded = {0.0};
    bounded.insert(bounded.end(), thresholds.begin(), thresholds.end());
    bounded.push_back(1.0);
    if (lie_evenly(bounded)) {
      set_even(metric, std::ssize(bounded), false);
    } else {
      bounded.front() -= kEpsilon;
      bounded.back() += kEpsilon;
      set_edges(metric, bounded);
    }
  }
  metric.result.each = options.flag("multi_label", false);
  metric.result.column_weights = options.numbers("label_weights", 0, kNoBound);
  const int64_t columns = last_count(output);
  const std::optional<int64_t> labels = whole_option(options, "num_labels", 1, 1 << 30);
  if (metric.result.each && output.shape.rank() != 2) {
    options.refuse("multi_label",
                   "false for an output of rank " + std::to_string(output.shape.rank()),
                   Config(true));
  }
  if (labels && *labels != columns) {
    options.refuse("num_labels", std::to_string(columns), Config(*labels));
  }
  const auto weights = std::ssize(metric.result.column_weights);
  if (weights != 0 && weights != columns) {
    options.refuse("label_weights", fmt::format("{} numbers", columns), Config(weights));
  }
  if (!metric.result.each && weights == 0) return;
  const int64_t each = thresholds.empty() ? count : std::ssize(thresholds) + 2;
  if (columns > kMostCounts / each) {
    options.refuse("num_thresholds",
                   fmt::format("at most {} for so many labels", kMostCounts / columns),
                   Config(each), "Give fewer.");
  }
  metric.attributes.set("columns", true);
  metric.result.columns = columns;
}

void expect_rank_2(const Row& row, const ValueType& output) {
  if (output.shape.rank() == 2) return;
  throw Error(ErrorKind::kModel,
              fmt::format("metric {}: expected an output of rank 2, received {}. Add a Flatten, or "
                          "leave the metric out.",
                          row.class_name, to_string(output.shape)));
}

void read_f_score(OptionReader& options, const Row& row, const ValueType& output, Metric& metric) {
  constexpr std::array<std::string_view, 4> kAverages = {"", "micro", "macro", "weighted"};
  expect_rank_2(row, output);
  metric.result.rule = MetricRule::kFScore;
  metric.result.what = one_of(options, "average", kAverages);
  metric.result.value =
      row.class_name == "F1Score" ? 1.0 : options.number("beta", 1.0, 1e-30, kNoBound);
  metric.attributes.set("kind", std::string("hits"));
  const std::optional<double> threshold = options.optional_number("threshold", 0, 1);
  if (threshold) metric.attributes.set("threshold", *threshold);
}

void read_r2(OptionReader& options, const Row& row, const ValueType& output, Metric& metric) {
  constexpr std::array<std::string_view, 2> kMeans = {"uniform_average",
                                                      "variance_weighted_average"};
  expect_rank_2(row, output);
  metric.result.rule = MetricRule::kR2;
  metric.result.what = one_of(options, "class_aggregation", kMeans);
  if (options.is_null("class_aggregation")) metric.result.what.clear();
  metric.result.regressors = whole_option(options, "num_regressors", 0, 1 << 30).value_or(0);
  metric.attributes.set("kind", std::string("moments"));
  metric.counts_values = true;
}

// The number of classes and which of them count.
void read_classes(OptionReader& options, const Row& row, Metric& metric) {
  const bool binary = row.class_name == "BinaryIoU";
  constexpr int64_t kMostClasses = 1024;
  const int64_t classes =
      binary ? 2 : whole_option(options, "num_classes", 2, kMostClasses).value_or(0);
  if (classes == 0) options.refuse("num_classes", "a number", Config());
  metric.attributes.set("classes", classes);
  if (!row.class_name.ends_with("MeanIoU")) {
    const auto most = static_cast<double>(classes - 1);
    for (const double number : options.numbers("target_class_ids", 0, most)) {
      metric.result.classes.push_back(static_cast<int64_t>(number));
    }
    if (!metric.result.classes.empty()) return;
    if (!binary) options.refuse("target_class_ids", "a list of classes", Config());
  }
  for (int64_t c = 0; c < classes; ++c) metric.result.classes.push_back(c);
}

void read_iou(OptionReader& options, const Row& row, const Loss& loss, const ValueType& output,
              Metric& metric) {
  metric.result.rule = MetricRule::kIou;
  read_classes(options, row, metric);
  // Keras counts in whole numbers, where it is not told another type.
  metric.attributes.set("whole", options.json("dtype").find("float") == std::string::npos);
  std::string target = "number";
  std::string prediction = "number";
  if (row.class_name == "BinaryIoU") {
    prediction = "above";
    metric.attributes.set("threshold", options.number("threshold", 0.5, -kNoBound, kNoBound));
  } else {
    const bool one_hot = row.class_name.starts_with("OneHot");
    if (one_hot || !options.flag("sparse_y_true", true)) target = "largest";
    if (!options.flag("sparse_y_pred", !one_hot)) prediction = "largest";
    const std::optional<int64_t> ignored =
        whole_option(options, "ignore_class", -(1 << 30), 1 << 30);
    if (ignored) metric.attributes.set("ignored", *ignored);
    read_last_axis(options, output);
  }
  const bool rows = prediction == "largest";
  const bool fits = is_sparse(loss) ? target == "number" && rows : rows == (target == "largest");
  if (!fits) {
    throw Error(
        ErrorKind::kModel,
        fmt::format("metric {}: expected classes that fit labels and outputs, received {} "
                    "labels, sparse_y_true={} and sparse_y_pred={}. Say sparse_y_pred=false "
                    "for scores of classes, and sparse_y_true=false for one-hot labels.",
                    row.class_name, is_sparse(loss) ? "sparse" : "dense", target == "number",
                    !rows));
  }
  metric.attributes.set("target", target);
  metric.attributes.set("prediction", prediction);
}

Loss read_loss_of(const Spelling& given, const ValueType& output, std::vector<Option>* list) {
  Config::Object arguments;
  for (const auto& [key, value] : given.arguments) {
    if (key != "name" && key != "dtype" && key != "fn") arguments.emplace_back(key, value);
  }
  std::vector<Option> known;
  Loss loss = read_loss(make_object(given.name, std::move(arguments)), output, &known);
  if (list == nullptr) return loss;
  for (const Option& option : known) {
    if (option.name != "reduction" && option.name != "name") list->push_back(option);
  }
  return loss;
}

// What a metric has besides its name.
void read_own_options(OptionReader& options, const Row& row, const Loss& loss,
                      const ValueType& output, Metric& metric) {
  switch (row.options) {
    case Options::kNone:
      break;
    case Options::kThreshold:
      metric.attributes.set("threshold", options.number("threshold", 0.5, -kNoBound, kNoBound));
      break;
    case Options::kTopK:
      metric.attributes.set("k", static_cast<int64_t>(options.number("k", 5, 1, 1e9)));
      options.refuse_unless_empty("from_sorted_ids", "Give scores of all classes.");
      break;
    case Options::kLastAxis:
      read_last_axis(options, output);
      break;
    case Options::kLoss:
      break;  // read_metric
    case Options::kCounts:
      return read_counts(options, row, output, metric);
    case Options::kCurve:
      return read_curve(options, output, metric);
    case Options::kBest:
      return read_best(options, row, output, metric);
    case Options::kFScore:
      return read_f_score(options, row, output, metric);
    case Options::kR2:
      return read_r2(options, row, output, metric);
    case Options::kIou:
      return read_iou(options, row, loss, output, metric);
  }
}

MetricKind kind_of(const Row& row) {
  if (row.options == Options::kLoss) return MetricKind::kLoss;
  if (row.op == "confusion_histogram") return MetricKind::kHistogram;
  if (row.op == "column_sums") return MetricKind::kColumns;
  return row.op == "class_pairs" ? MetricKind::kPairs : MetricKind::kRows;
}

// A loss itself among the metrics: Keras takes the mean of its batches, whatever their sizes.
void refuse_loss_object(const Config& config, const Spelling& given) {
  const Config* module = config.is_object() ? config.find("module") : nullptr;
  if (module == nullptr || !module->is_string()) return;
  if (module->as_string().find("losses") == std::string::npos) return;
  throw Error(ErrorKind::kModel, "metrics: expected a metric, received the loss " + given.name +
                                     ". Give the metric of that name, or the loss's function.");
}

// A function of keras.losses, whose mean over the rows is the metric.
Metric loss_metric(const Spelling& given, const Loss& labels, const ValueType& output,
                   std::string name, std::vector<Option>* list) {
  Metric metric;
  metric.kind = MetricKind::kLoss;
  metric.name = std::move(name);
  metric.loss = read_loss_of(given, output, list);
  if (is_of_whole_batch(*metric.loss)) {
    throw Error(ErrorKind::kModel, "metric " + metric.name +
                                       ": expected a value per sample, received a ratio of whole "
                                       "batches. Leave it out: it is no mean over samples.");
  }
  const bool sequences = reads_label_sequences(*metric.loss);
  if (sequences && !reads_label_sequences(labels)) {
    throw Error(ErrorKind::kModel,
                "metric " + metric.name +
                    ": expected labels that are sequences, received those of the "
                    "loss " +
                    labels.name + ". Leave the metric out.");
  }
  if (sequences != reads_label_sequences(labels) || is_sparse(*metric.loss) != is_sparse(labels)) {
    check_labels(Row{"", "", "", is_sparse(*metric.loss) ? Labels::kClassNumbers : kDense, false},
                 metric.name, labels);
  }
  return metric;
}

}  // namespace

// Keras's `_direction` of the class is "up".
bool grows(std::string_view class_name) {
  constexpr std::array kFigures = {"AUC", "CosineSimilarity", "PearsonCorrelation",
                                   "ConcordanceCorrelation", "R2Score"};
  return std::ranges::find(kFigures, class_name) != kFigures.end() ||
         class_name.ends_with("Accuracy") || class_name.ends_with("IoU") ||
         class_name.ends_with("Score") || class_name.starts_with("Precision") ||
         class_name.starts_with("Recall") || class_name.starts_with("Sensitivity") ||
         class_name.starts_with("Specificity");
}

std::string metric_title(const Config& config) {
  const Spelling given = read_object(config, "metrics");
  for (const auto& [key, value] : given.arguments) {
    if (key == "name" && value.is_string() && value.as_string() != given.name) {
      return value.as_string() + " (" + given.name + ")";
    }
  }
  return given.name;
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
  const Row* known = plain ? &accuracy_row(loss, output) : find_row(given.name);
  refuse_loss_object(config, given);
  OptionReader options(given.arguments, given.name, list);
  // As in Keras a name is the key of logs as it is given; an object without one is called by its
  // class.
  const bool by_class = known != nullptr && !config.is_string() && given.name == known->class_name;
  const std::string title = by_class ? std::string(name_of(*known)) : given.name;
  const std::string name = options.text("name", title);
  if ((known != nullptr && known->options == Options::kLoss) ||
      (known == nullptr && loss_class(given.name) != given.name)) {
    return loss_metric(given, loss, output, name, list);
  }
  const Row& row = row_of(given.name, known);
  Metric metric;
  metric.name = name;
  metric.kind = kind_of(row);
  metric.op = row.op;
  metric.target_first = row.target_first;
  metric.result.grows = grows(row.class_name);
  options.ignore("dtype");
  options.ignore("fn");
  if (row.op == "cosine_similarity") metric.factor = -1;  // the loss is the negative of it
  if (row.class_name == "RootMeanSquaredError") {
    metric.masks = false;
    metric.result.rule = MetricRule::kRootMean;
  }
  read_own_options(options, row, loss, output, metric);
  options.finish();
  check_labels(row, metric.name, loss);
  return metric;
}

}  // namespace plimsoll::layers
