#include "layers/training/metric_result.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "layers/training/curve_area.h"

namespace plimsoll::layers {
namespace {

constexpr double kEpsilon = 1e-7;

double value_of(const ThresholdCounts& c, const std::string& what) {
  if (what == "true_positives") return c.true_positives;
  if (what == "false_positives") return c.false_positives;
  if (what == "true_negatives") return c.true_negatives;
  if (what == "false_negatives") return c.false_negatives;
  if (what == "precision") return share(c.true_positives, c.true_positives + c.false_positives);
  if (what == "specificity") return share(c.true_negatives, c.true_negatives + c.false_positives);
  return share(c.true_positives, c.true_positives + c.false_negatives);  // recall, sensitivity
}

// Columns together, each by its weight.
std::vector<float> joined(std::span<const float> counts, std::span<const double> weights) {
  if (weights.empty()) return {counts.begin(), counts.end()};
  const size_t size = counts.size() / weights.size();
  std::vector<float> sums(size);
  for (size_t i = 0; i < size; ++i) {
    double sum = 0;
    for (size_t c = 0; c < weights.size(); ++c) {
      sum += weights[c] * static_cast<double>(counts[c * size + i]);
    }
    sums[i] = static_cast<float>(sum);
  }
  return sums;
}

double area_of(const MetricResult& result, std::span<const float> counts) {
  return curve_area(counts_by_threshold(counts, result.below), result.what, result.how);
}

double mean_area(const MetricResult& result, std::span<const float> counts) {
  if (!result.each) return area_of(result, joined(counts, result.column_weights));
  const auto columns = static_cast<size_t>(result.columns);
  const size_t size = counts.size() / columns;
  double sum = 0;
  double weights = 0;
  for (size_t c = 0; c < columns; ++c) {
    const double weight = result.column_weights.empty() ? 1.0 : result.column_weights[c];
    sum += weight * area_of(result, counts.subspan(c * size, size));
    weights += weight;
  }
  return share(sum, weights);
}

double best_of(const MetricResult& result, std::span<const float> counts) {
  double best = 0;
  for (const ThresholdCounts& at : counts_by_threshold(counts, result.below)) {
    // Keras compares in float32.
    const bool holds =
        static_cast<float>(value_of(at, result.how)) >= static_cast<float>(result.value);
    if (holds) best = std::max(best, value_of(at, result.what));
  }
  return best;
}

// Rows: hits, false alarms, misses, targets.
std::vector<double> f_scores(const MetricResult& result, std::span<const float> sums) {
  const size_t classes = sums.size() / 4;
  std::vector<double> rows(sums.begin(), sums.end());
  const auto sum_of = [&](size_t row) {
    const auto begin = rows.begin() + static_cast<ptrdiff_t>(row * classes);
    return std::accumulate(begin, begin + static_cast<ptrdiff_t>(classes), 0.0);
  };
  const double beta = result.value * result.value;
  const auto score = [&](double hits, double alarms, double misses) {
    const double precision = hits / (hits + alarms + kEpsilon);
    const double recall = hits / (hits + misses + kEpsilon);
    return (1 + beta) * (precision * recall) / (beta * precision + recall + kEpsilon);
  };
  if (result.what == "micro") return {score(sum_of(0), sum_of(1), sum_of(2))};
  std::vector<double> scores;
  for (size_t c = 0; c < classes; ++c) {
    scores.push_back(score(rows[c], rows[classes + c], rows[2 * classes + c]));
  }
  if (result.what.empty()) return scores;
  double total = 0;
  for (size_t c = 0; c < classes; ++c) {
    const double weight = result.what == "weighted" ? rows[3 * classes + c] / (sum_of(3) + kEpsilon)
                                                    : 1.0 / static_cast<double>(classes);
    total += scores[c] * weight;
  }
  return {total};
}

// Less by as many regressors as there are.
double adjusted(double score, double samples, double regressors) {
  if (regressors == 0 || regressors >= samples - 1) return score;
  return 1 - (1 - score) * (samples - 1) / (samples - regressors - 1);
}

// Rows: Σ t, Σ t², Σ (t − p)², Σ 1.
std::vector<double> r2_scores(const MetricResult& result, std::span<const float> sums,
                              double samples) {
  const size_t outputs = sums.size() / 4;
  std::vector<double> scores;
  double weighted = 0;
  double weights = 0;
  for (size_t i = 0; i < outputs; ++i) {
    const auto at = [&](size_t row) { return static_cast<double>(sums[row * outputs + i]); };
    const double total = at(1) - at(0) * (at(0) / at(3));
    const double score = 1 - at(2) / total;
    scores.push_back(std::isinf(score) ? 0.0 : score);
    weighted += total * scores.back();
    weights += total;
  }
  if (result.what == "uniform_average") {
    scores = {std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(outputs)};
  } else if (result.what == "variance_weighted_average") {
    scores = {weighted / weights};
  }
  for (double& score : scores) {
    score = adjusted(score, samples, static_cast<double>(result.regressors));
  }
  return scores;
}

double mean_iou(const MetricResult& result, std::span<const float> pairs) {
  const auto classes = static_cast<size_t>(std::lround(std::sqrt(pairs.size())));
  double sum = 0;
  double valid = 0;
  for (const int64_t number : result.classes) {
    const auto c = static_cast<size_t>(number);
    double row = 0;
    double column = 0;
    for (size_t i = 0; i < classes; ++i) {
      row += static_cast<double>(pairs[c * classes + i]);
      column += static_cast<double>(pairs[i * classes + c]);
    }
    const double both = static_cast<double>(pairs[c * classes + c]);
    const double either = row + column - both;
    if (either <= 1e-9) continue;
    sum += both / (either + kEpsilon);
    valid += 1;
  }
  return sum / (valid + kEpsilon);
}

}  // namespace

bool tells_array(const MetricResult& result) {
  const bool by_column = result.rule == MetricRule::kFScore || result.rule == MetricRule::kR2;
  return by_column && result.what.empty();
}

std::vector<double> metric_values(const MetricResult& result,
                                  std::span<const std::vector<float>> states) {
  const std::vector<float>& first = states[0];
  const auto number = [&](size_t i) { return static_cast<double>(states[i].at(0)); };
  switch (result.rule) {
    case MetricRule::kMean:
      return {share(number(0), number(1))};
    case MetricRule::kRootMean:
      return {std::sqrt(share(number(0), number(1)))};
    case MetricRule::kCurve:
      return {mean_area(result, first)};
    case MetricRule::kCounts: {
      std::vector<double> values;
      for (const ThresholdCounts& at : counts_by_threshold(first, result.below)) {
        values.push_back(value_of(at, result.what));
      }
      return values;
    }
    case MetricRule::kBest:
      return {best_of(result, first)};
    case MetricRule::kFScore:
      return f_scores(result, first);
    case MetricRule::kR2:
      return r2_scores(result, first, number(1));
    case MetricRule::kIou:
      return {mean_iou(result, first)};
  }
  return {};
}

}  // namespace plimsoll::layers
