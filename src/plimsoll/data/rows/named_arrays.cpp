#include "data/rows/named_arrays.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace plimsoll::data {
namespace {

constexpr std::initializer_list<std::pair<const char*, const char*>> kSpellings = {
    {"x", "y"},        {"x_train", "y_train"}, {"x_test", "y_test"},   {"arr_0", "arr_1"},
    {"data", "label"}, {"data", "labels"},     {"features", "labels"}, {"images", "labels"}};

std::vector<std::string> present(const std::vector<Port>& ports, const HoldsArray& holds) {
  std::vector<std::string> names;
  for (const Port& port : ports) {
    if (holds(port.name)) names.push_back(port.name);
  }
  return names;
}

}  // namespace

std::string list_names(const std::vector<std::string>& names) {
  constexpr size_t kMostListed = 20;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostListed); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMostListed) {
    text += fmt::format(" and {} others", names.size() - kMostListed);
  }
  return names.empty() ? "none" : text;
}

std::string names_of(const std::vector<Port>& ports) {
  std::string text;
  for (const Port& port : ports) text += (text.empty() ? "" : ", ") + port.name;
  return text;
}

ArrayNames find_named(const DatasetOptions& options, const std::string& origin,
                      const HoldsArray& holds) {
  ArrayNames names;
  names.features = present(options.inputs, holds);
  if (names.features.size() != options.inputs.size()) names.features.clear();
  names.targets = present(options.outputs, holds);
  if (!names.targets.empty() && names.targets.size() != options.outputs.size()) {
    throw Error(
        ErrorKind::kData,
        fmt::format(
            "{}: expected labels for each output that has a loss ({}), received {} of them.",
            origin, names_of(options.outputs), names.targets.size()));
  }
  if (holds("sample_weight")) names.weights = "sample_weight";
  return names;
}

void add_usual_names(const DatasetOptions& options, const HoldsArray& holds, ArrayNames& names) {
  const bool given = !names.features.empty();
  if (!given && options.inputs.size() > 1) return;
  const bool wants_targets = names.targets.empty() && options.outputs.size() < 2;
  // Features that are called as the model's inputs have labels of any of the usual names; others
  // those of their pair.
  const bool any_targets = given && options.columns.empty();
  for (const auto& [features, targets] : kSpellings) {
    if (names.features.empty() && holds(features)) names.features = {features};
    if (names.features.empty() || !wants_targets || !names.targets.empty()) continue;
    const bool pair = names.features.front() == features;
    if ((pair || any_targets) && holds(targets)) names.targets = {targets};
  }
}

int64_t label_elements(const Port& output) {
  int64_t elements = 1;
  const size_t places = output.sample_shape.size() - (output.class_numbers ? 1 : 0);
  for (size_t i = 0; i < places; ++i) elements *= output.sample_shape[i];
  return elements;
}

bool has_own_labels(const DatasetOptions& options) {
  return !options.labels.empty() ||
         (!options.outputs.empty() && !options.outputs.front().path.empty());
}

std::string expected_arrays(const DatasetOptions& options) {
  if (options.inputs.size() < 2) return "arrays x and y (or x_train and y_train)";
  return "an array for each input of the model (" + names_of(options.inputs) + ")";
}

}  // namespace plimsoll::data
