#include "run/open_data.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/accounted.h"
#include "base/error.h"
#include "base/format.h"
#include "base/spill_folder.h"
#include "base/suggest.h"
#include "data/csv/csv_schema.h"
#include "data/dataset_stages.h"
#include "data/rows/named_arrays.h"
#include "layers/training/losses.h"

namespace plimsoll::run {
namespace {

using Words = std::vector<std::string>;

// The port that a word of the form NAME=PATH names; null where it does not.
data::Port* find_port(std::vector<data::Port>& ports, const std::string& word) {
  const size_t end = word.find('=');
  if (end == std::string::npos) return nullptr;
  const auto found = std::ranges::find(ports, word.substr(0, end), &data::Port::name);
  return found == ports.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_paths(const char* option, const std::vector<data::Port>& ports,
                               const std::string& received, const std::string& hint = "") {
  throw Error(ErrorKind::kConfig, std::string(option) + ": expected one path, or NAME=PATH for " +
                                      "each of " + data::names_of(ports) + ", received " +
                                      received + "." + hint);
}

void place_named(const char* option, const Words& words, std::vector<data::Port>& ports) {
  Words names;
  for (const data::Port& port : ports) names.push_back(port.name);
  for (const std::string& word : words) {
    data::Port* const port = find_port(ports, word);
    const std::string name = word.substr(0, word.find('='));
    if (port == nullptr) refuse_paths(option, ports, word, did_you_mean(name, names));
    if (!port->path.empty()) refuse_paths(option, ports, name + " twice");
    port->path = word.substr(name.size() + 1);
    if (port->path.empty()) refuse_paths(option, ports, word);
  }
  for (const data::Port& port : ports) {
    if (port.path.empty()) refuse_paths(option, ports, "none for " + port.name);
  }
}

// The one path that was given, or "" and a path in each port.
std::string place_paths(const char* option, const Words& words, std::vector<data::Port>& ports) {
  if (words.empty()) return "";
  std::vector<data::Port> placed = ports;
  const bool named = std::ranges::any_of(
      words, [&](const std::string& word) { return find_port(placed, word) != nullptr; });
  if (words.size() == 1 && !named) return words.front();
  if (named) {
    place_named(option, words, placed);
  } else {
    if (words.size() != ports.size()) {
      refuse_paths(option, ports, fmt::format("{} paths", words.size()));
    }
    for (size_t i = 0; i < words.size(); ++i) placed[i].path = words[i];
  }
  if (placed.size() == 1) return placed.front().path;
  ports = std::move(placed);
  return "";
}

// A cache among the files of a data set would be taken for one of them by the next run.
void check_cache_place(const DataPaths& given) {
  namespace fs = std::filesystem;
  const auto whole = [](const std::string& path) {
    std::error_code failed;
    return fs::weakly_canonical(path, failed);
  };
  const fs::path cache = whole(given.set.cache);
  for (const std::vector<std::string>* paths : {&given.data, &given.labels}) {
    for (const std::string& word : *paths) {
      const fs::path data = whole(word.substr(word.find('=') + 1));
      const auto parted = std::mismatch(data.begin(), data.end(), cache.begin(), cache.end());
      if (data.empty() || parted.first != data.end()) continue;
      throw Error(ErrorKind::kConfig, "--cache: expected a folder of its own, received \"" +
                                          given.set.cache + "\", which is among the data of \"" +
                                          word + "\". Name one beside it.");
    }
  }
}

// What the model takes and gives per sample, for data that take the model's shape.
data::DatasetOptions with_shapes(const DataPaths& given, const layers::Model& model,
                                 const layers::CompileOptions& compile) {
  data::DatasetOptions options = given.set;
  if (!options.cache.empty()) check_cache_place(given);
  if (!given.cache_limit.empty()) {
    if (options.cache.empty()) {
      throw Error(ErrorKind::kConfig, "--cache-limit: expected --cache FOLDER beside it.");
    }
    std::error_code failed;  // which the cache will meet again, and say
    std::filesystem::create_directories(options.cache, failed);
    if (!failed) options.cache_limit = parse_bytes(given.cache_limit, free_space(options.cache));
  }
  name_ports(model, compile, options);
  if (!model.inputs().empty()) {
    options.sample_shape = model.inputs().front().type.shape.at(1);
    options.sample_shape.erase(options.sample_shape.begin());
  }
  if (!options.outputs.empty()) {
    // Labels that are not named belong to the first output that has a loss.
    options.target_elements = data::label_elements(options.outputs.front());
  } else if (!model.outputs().empty()) {
    options.target_elements = model.outputs().front().type.shape.elements_per_sample();
  }
  return options;
}

// The data set, and what is to be said of it.
std::shared_ptr<data::Dataset> open_told(const data::DatasetOptions& set, Listener& listener,
                                         const data::Dataset* like) {
  auto dataset = std::make_shared<data::Dataset>(data::open_dataset(set, like));
  for (const std::string& note : dataset->notes) listener.notice(note);
  return dataset;
}

// A column as messages name it: "column 3" has no name of its own.
std::string column_words(const data::CsvColumn& column) {
  return column.name.starts_with("column ") ? column.name : "column \"" + column.name + "\"";
}

// What a table became: which column is the label and how many numbers the others are, which people
// take for something else.
void note_table(const data::Dataset& dataset, Listener& listener) {
  const data::CsvSchema* const schema = dataset.csv.get();
  if (schema == nullptr || dataset.features.size() != 1 || !schema->inputs.empty()) return;
  int64_t others = 0;
  for (size_t i = 0; i < schema->columns.size(); ++i) {
    if (schema->columns[i].ids != nullptr) return;
    if (schema->columns[i].used) ++others;
  }
  const data::RowSource& features = *dataset.features.front();
  const int64_t numbers = fixed_shape(features.row_shape()).element_count(1);
  std::string label;
  if (schema->label >= 0) {
    const data::CsvColumn& column = schema->columns[static_cast<size_t>(schema->label)];
    label = "the label is " + column_words(column);
    if (column.text) label += fmt::format(" ({} classes)", column.categories.size());
    label += "; ";
  }
  listener.notice(fmt::format("{}: {}{} {}column{} became {} number{} a sample.", features.origin(),
                              label, others, label.empty() ? "" : "other ", others == 1 ? "" : "s",
                              numbers, numbers == 1 ? "" : "s"));
}

std::shared_ptr<data::Dataset> open_paths(const DataPaths& paths, const layers::Model& model,
                                          const layers::CompileOptions& compile, bool labels,
                                          Listener& listener, const data::Dataset* like) {
  data::DatasetOptions shapes = with_shapes(paths, model, compile);
  shapes.labels_wanted = labels;
  data::DatasetOptions set = shapes;
  set.data = place_paths(paths.data_option, paths.data, set.inputs);
  set.labels = place_paths(paths.labels_option, paths.labels, set.outputs);
  if (paths.like.empty()) return open_told(set, listener, like);
  data::DatasetOptions other = shapes;
  other.data = place_paths("--like", paths.like, other.inputs);
  other.weights.clear();
  const data::Dataset trained_on = data::open_dataset(other);
  std::shared_ptr<data::Dataset> dataset = open_told(set, listener, &trained_on);
  dataset->opening_peak =
      max(trained_on.opening_peak, trained_on.held_bytes() + dataset->opening_peak);
  return dataset;
}

std::shared_ptr<const InputLookup> lookup_of(const layers::Model& model,
                                             const layers::ModelPort& port) {
  return model.layer(model.calls()[port.tensor.call.index()].layer).input_lookup();
}

// Data that somebody opened are numbers, and whether they were looked up nobody can tell.
void refuse_lookups(const layers::Model& model) {
  for (const layers::ModelPort& port : model.inputs()) {
    const auto lookup = lookup_of(model, port);
    if (lookup == nullptr) continue;
    throw Error(ErrorKind::kModel,
                "[" + port.name + "] expected an input of numbers, received one that " +
                    lookup->class_name +
                    " looks up. Name a file of data, or look the values up first.");
  }
}

// Refuses shapes before anybody waits for a plan.
void check_shapes(const OpenedData& opened, const layers::Model& model,
                  const layers::CompileOptions& compile) {
  const MemoryTag tag(MemoryPart::kSearch);
  layers::BatchSizes one;
  one.train = 1;
  const layers::BuiltPrograms built = layers::build_programs(model, compile, one);
  const std::vector<data::InputBinding> inputs = train::bindings_of(built.train_inputs);
  data::check_shapes(*opened.train, inputs);
  if (opened.validation) data::check_shapes(*opened.validation, inputs);
}

}  // namespace

void name_ports(const layers::Model& model, const layers::CompileOptions& compile,
                data::DatasetOptions& options) {
  options.inputs.clear();
  options.outputs.clear();
  for (const layers::ModelPort& port : model.inputs()) {
    std::vector<int64_t> shape = port.type.shape.at(1);
    shape.erase(shape.begin());
    options.inputs.push_back(
        {.name = port.name, .sample_shape = std::move(shape), .lookup = lookup_of(model, port)});
  }
  const std::vector<layers::Config>& losses = compile.losses;
  for (size_t i = 0; i < model.outputs().size(); ++i) {
    const size_t at = losses.size() == 1 ? 0 : i;
    if (at >= losses.size() || losses[at].is_null()) continue;
    const layers::ModelPort& port = model.outputs()[i];
    std::vector<int64_t> shape = port.type.shape.at(1);
    shape.erase(shape.begin());
    const bool one = port.type.shape.elements_per_sample() == 1;
    options.outputs.push_back({.name = port.name,
                               .sample_shape = std::move(shape),
                               .class_numbers = layers::names_sparse_loss(losses[at]),
                               .two_classes = one && layers::names_binary_loss(losses[at]),
                               .ignored_class = layers::ignored_class_of(losses[at])});
  }
}

void note_labels(const data::Dataset& dataset, const layers::CompileOptions& compile,
                 const layers::Model& model, Listener& listener) {
  constexpr int64_t kMostLabels = int64_t{1} << 20;
  constexpr int64_t kTogether = 4096;
  data::DatasetOptions set;
  name_ports(model, compile, set);
  for (size_t i = 0; i < std::min(set.outputs.size(), dataset.targets.size()); ++i) {
    data::RowSource& labels = *dataset.targets[i];
    const bool one = fixed_shape(labels.row_shape()).element_count(1) == 1;
    if (!set.outputs[i].two_classes || !one || !labels.can_read_as(DType::kFloat32)) continue;
    std::vector<float> values(kTogether);
    for (int64_t row = 0; row < std::min(labels.row_count(), kMostLabels); row += kTogether) {
      const int64_t now = std::min(kTogether, labels.row_count() - row);
      labels.read(row, now, DType::kFloat32, values.data());
      const auto odd = std::find_if(values.begin(), values.begin() + now,
                                    [](float value) { return !(value >= 0 && value <= 1); });
      if (odd == values.begin() + now) continue;
      listener.notice(fmt::format(
          "{}: expected labels from 0 to 1, as a loss of two classes takes them, received {} in "
          "row "
          "{}. They are taken as they are, as Keras takes them. For more classes give the model an "
          "output for each and use sparse_categorical_crossentropy.",
          labels.origin(), *odd, row + (odd - values.begin())));
      return;
    }
  }
}

void note_own_scale(const data::Dataset& dataset, const DataPaths& paths, Listener& listener) {
  if (!paths.set.standardize || !paths.like.empty() || dataset.csv == nullptr) return;
  listener.notice(fmt::format(
      "{}: --standardize scales these rows by their own mean and deviation, not by those that the "
      "model was trained on, and results differ from those. Add --like TRAIN.csv.",
      dataset.features.front()->origin()));
}

std::vector<std::vector<int64_t>> sequence_shapes(const layers::CompileOptions& compile,
                                                  std::vector<std::vector<int64_t>> shapes) {
  std::vector<bool> sequences;
  for (const layers::Config& loss : compile.losses) {
    if (!loss.is_null()) sequences.push_back(layers::names_label_sequences(loss));
  }
  if (std::ranges::find(sequences, true) == sequences.end()) return {};
  for (size_t i = 0; i < shapes.size(); ++i) {
    const size_t at = sequences.size() == 1 ? 0 : i;
    if (at >= sequences.size() || !sequences[at]) {
      shapes[i].clear();
    } else if (shapes[i].empty()) {
      throw Error(
          ErrorKind::kData,
          fmt::format("labels {}: expected a row of labels for each sample, as loss ctc asks "
                      "for, received one label. Give labels of shape (samples, length), "
                      "shorter rows padded with 0.",
                      i));
    }
  }
  return shapes;
}

namespace {

// Sequences of labels are as long in the validation data as in the training data.
void expect_lengths(const layers::CompileOptions& compile, const data::Dataset& validation) {
  const std::vector<std::vector<int64_t>> given = data::target_shapes(validation);
  for (size_t i = 0; i < given.size() && i < compile.target_shapes.size(); ++i) {
    const std::vector<int64_t>& expected = compile.target_shapes[i];
    if (expected.empty() || given[i] == expected) continue;
    throw Error(ErrorKind::kData,
                fmt::format("{}: expected rows of {} labels, as the training data has, received "
                            "samples of shape {}. Pad shorter rows with 0.",
                            validation.targets[i]->origin(), expected[0],
                            to_string(fixed_shape(given[i]))));
  }
}

}  // namespace

void describe_data(const data::Dataset& dataset, layers::CompileOptions& compile) {
  compile.sample_weights = !dataset.weights.empty();
  compile.weight_shapes = data::weight_shapes(dataset);
  compile.target_shapes = sequence_shapes(compile, data::target_shapes(dataset));
}

std::shared_ptr<data::Dataset> open_data(const DataRequest& request, const layers::Model& model,
                                         const layers::CompileOptions& compile, bool labels,
                                         Listener& listener, const data::Dataset* like) {
  const MemoryTag tag(MemoryPart::kData);
  if (request.opened != nullptr && !request.opened->looked_up) refuse_lookups(model);
  // A copy shares the sources: what this run adds to it, weights and parts, is its own.
  if (request.opened != nullptr) return std::make_shared<data::Dataset>(*request.opened);
  return open_paths(request.paths, model, compile, labels, listener, like);
}

OpenedData open_training(const TrainingDataRequest& request, const layers::Model& model,
                         layers::CompileOptions& compile, Listener& listener) {
  const MemoryTag tag(MemoryPart::kData);
  OpenedData opened;
  opened.train = open_data(request.data, model, compile, true, listener);
  data::Dataset& train = *opened.train;
  if (!request.validation.empty()) {
    opened.validation =
        open_data(request.validation, model, compile, true, listener, opened.train.get());
  } else if (request.validation_split > 0) {
    opened.validation = std::make_shared<data::Dataset>(
        data::split_off(train, request.validation_split, request.seed));
  }
  if (!request.class_weights.empty()) {
    data::DatasetOptions set;
    name_ports(model, compile, set);
    const bool class_numbers = set.outputs.size() == 1 && set.outputs.front().class_numbers;
    data::weight_classes(train, request.class_weights, class_numbers);
  }
  if (opened.validation && !opened.validation->weights.empty() && train.weights.empty()) {
    data::add_unit_weights(train, *opened.validation);
  }
  describe_data(train, compile);
  opened.rows.train = train.row_count();
  opened.memory.held = train.resident_bytes();
  if (opened.validation) {
    expect_lengths(compile, *opened.validation);
    if (compile.sample_weights) data::add_unit_weights(*opened.validation, train);
    opened.rows.evaluate = opened.validation->row_count();
    opened.memory.held += opened.validation->resident_bytes();
  }
  opened.memory.opening = train::opening_of(train, opened.validation.get());
  // Whoever opened the data himself may fit them in many calls.
  if (request.data.opened == nullptr) {
    note_table(train, listener);
    check_shapes(opened, model, compile);
    note_labels(train, compile, model, listener);
  }
  return opened;
}

}  // namespace plimsoll::run
