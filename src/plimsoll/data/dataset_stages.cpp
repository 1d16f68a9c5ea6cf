#include "data/dataset_stages.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/shape.h"
#include "data/row_views.h"

namespace plimsoll::data {
namespace {

using Sources = std::vector<std::shared_ptr<RowSource>>;

Sources parts_of(const Sources& sources, const Permutation& order, int64_t first, int64_t count,
                 bool counts_source) {
  Sources parts;
  for (const std::shared_ptr<RowSource>& source : sources) {
    parts.push_back(part_of(source, order, first, count, counts_source));
  }
  return parts;
}

std::string with_thousands(int64_t count) {
  std::string text = std::to_string(count);
  for (int64_t at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), 1, ',');
  }
  return text;
}

}  // namespace

Dataset split_off(Dataset& dataset, double fraction, uint64_t seed) {
  const int64_t rows = dataset.row_count();
  const auto kept = static_cast<int64_t>(std::floor(static_cast<double>(rows) * (1 - fraction)));
  if (!(fraction > 0 && fraction < 1) || kept < 1 || kept >= rows) {
    throw Error(ErrorKind::kConfig,
                fmt::format("--validation-split: expected a fraction between 0 and 1 that leaves "
                            "samples on both sides, received {:f} of {} samples.",
                            fraction, rows));
  }
  constexpr int64_t kSplitEpoch = -1;  // no epoch's order
  const Permutation order =
      dataset.sorted_by_class ? Permutation(rows, seed, kSplitEpoch) : Permutation(rows);
  Dataset rest = dataset;
  rest.vocabulary.reset();  // it counts once
  rest.tables = {};
  rest.opening_peak = {};
  const auto part = [&](Sources Dataset::*group) {
    const Sources all = dataset.*group;
    dataset.*group = parts_of(all, order, 0, kept, true);
    rest.*group = parts_of(all, order, kept, rows - kept, false);
  };
  part(&Dataset::features);
  part(&Dataset::targets);
  part(&Dataset::weights);
  return rest;
}

void weight_classes(Dataset& dataset, const std::string& text, bool class_numbers) {
  if (dataset.targets.size() != 1) {
    throw Error(
        ErrorKind::kConfig,
        fmt::format(
            "--class-weights: expected data with labels of one output, received labels of {}.",
            dataset.targets.size()));
  }
  const std::shared_ptr<RowSource>& labels = dataset.targets.front();
  const Shape shape = fixed_shape(labels->row_shape());
  if (class_numbers && shape.element_count(1) != 1) {
    throw Error(
        ErrorKind::kData,
        fmt::format("{}: expected one class number a sample for --class-weights, received labels "
                    "of shape {}. Weights for each step or pixel come by --sample-weights.",
                    labels->origin(), to_string(shape)));
  }
  ClassWeights classes =
      text == "balanced" ? balanced_class_weights(*labels) : parse_class_weights(text);
  std::shared_ptr<RowSource> own = dataset.weights.empty() ? nullptr : dataset.weights.front();
  dataset.weights = {weights_by_class(labels, std::move(classes), std::move(own))};
}

void add_unit_weights(Dataset& dataset, const Dataset& like) {
  if (!dataset.weights.empty()) return;
  const int64_t rows = dataset.row_count();
  for (const std::shared_ptr<RowSource>& weights : like.weights) {
    dataset.weights.push_back(constant_rows(1, rows, weights->row_shape()));
  }
}

namespace {

std::vector<std::vector<int64_t>> row_shapes(const std::vector<std::shared_ptr<RowSource>>& rows) {
  std::vector<std::vector<int64_t>> shapes;
  shapes.reserve(rows.size());
  for (const std::shared_ptr<RowSource>& source : rows) shapes.push_back(source->row_shape());
  return shapes;
}

}  // namespace

std::vector<std::vector<int64_t>> weight_shapes(const Dataset& dataset) {
  return row_shapes(dataset.weights);
}

std::vector<std::vector<int64_t>> target_shapes(const Dataset& dataset) {
  return row_shapes(dataset.targets);
}

std::string describe(const Dataset& dataset) {
  std::string text = with_thousands(dataset.row_count()) + " samples of ";
  for (const std::shared_ptr<RowSource>& input : dataset.features) {
    if (input != dataset.features.front()) text += " and ";
    text += fmt::format("{} {}", to_string(fixed_shape(input->row_shape())),
                        to_string(input->stored_dtype()));
  }
  if (!dataset.form.empty()) {
    text += fmt::format(" from {} of {}", to_string(dataset.file_bytes), dataset.form);
  }
  if (dataset.skipped > 0) {
    text += fmt::format(" ({} damaged ones skipped)", dataset.skipped);
  }
  return fmt::format("{}, {} resident", text, to_string(dataset.resident_bytes()));
}

}  // namespace plimsoll::data
