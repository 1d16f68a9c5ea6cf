#include "cli/data_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/accounted.h"
#include "base/error.h"
#include "base/spill_folder.h"
#include "base/suggest.h"
#include "data/dataset_stages.h"
#include "data/rows/named_arrays.h"
#include "layers/training/losses.h"

namespace plimsoll::cli {
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
      refuse_paths(option, ports, std::to_string(words.size()) + " paths");
    }
    for (size_t i = 0; i < words.size(); ++i) placed[i].path = words[i];
  }
  if (placed.size() == 1) return placed.front().path;
  ports = std::move(placed);
  return "";
}

// A cache among the files of a data set would be taken for one of them by the next run.
void check_cache_place(const DataOptions& given) {
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
data::DatasetOptions with_shapes(const DataOptions& given, const Loaded& loaded) {
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
  const layers::Model& model = loaded.file.model;
  name_ports(model, loaded.compile, options);
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
data::Dataset open_told(const data::DatasetOptions& set, const data::Dataset* like = nullptr) {
  data::Dataset dataset = data::open_dataset(set, like);
  for (const std::string& note : dataset.notes) std::fprintf(stderr, "%s\n", note.c_str());
  return dataset;
}

// One word each time that the option is given.
CLI::Option* add_paths(CLI::App& command, const char* name, Words& words, const char* text) {
  return command.add_option(name, words, text)->allow_extra_args(false);
}

}  // namespace

void name_ports(const layers::Model& model, const layers::CompileOptions& compile,
                data::DatasetOptions& options) {
  options.inputs.clear();
  options.outputs.clear();
  for (const layers::ModelPort& port : model.inputs()) {
    std::vector<int64_t> shape = port.type.shape.at(1);
    shape.erase(shape.begin());
    options.inputs.push_back({port.name, std::move(shape)});
  }
  const std::vector<layers::Config>& losses = compile.losses;
  for (size_t i = 0; i < model.outputs().size(); ++i) {
    const size_t at = losses.size() == 1 ? 0 : i;
    if (at >= losses.size() || losses[at].is_null()) continue;
    const layers::ModelPort& port = model.outputs()[i];
    std::vector<int64_t> shape = port.type.shape.at(1);
    shape.erase(shape.begin());
    options.outputs.push_back({port.name, std::move(shape), layers::names_sparse_loss(losses[at]),
                               "", layers::ignored_class_of(losses[at])});
  }
}

void weigh_samples(const data::Dataset& dataset, layers::CompileOptions& compile) {
  compile.sample_weights = !dataset.weights.empty();
  compile.weight_shapes = data::weight_shapes(dataset);
}

void add_data_options(CLI::App& command, DataOptions& options, DataNeed need) {
  data::DatasetOptions& set = options.set;
  CLI::Option* data =
      add_paths(command, "--data", options.data,
                "Samples: .npy, .npz, IDX, .csv, .txt, .h5, .tfrecord, also .gz; - "
                "(standard input); a folder of chunks or of class folders of images; several "
                "inputs: NAME=PATH for each");
  if (need != DataNeed::kOptional) data->required();
  if (need != DataNeed::kSamples) {
    add_paths(command, "--labels", options.labels,
              "Labels, when they are a file of their own, or a folder of masks; several outputs: "
              "NAME=PATH for each");
    command.add_option("--sample-weights", set.weights,
                       "One weight per sample, or one for each step or pixel");
  }
  add_paths(command, "--like", options.like,
            "Data whose categories, classes and scale hold for --data: what was trained on");
  command.add_option("--label-column", set.label_column, "CSV: the label's column, name or number");
  command.add_option("--columns", set.columns, "CSV: columns to use, names or numbers");
  command.add_option("--fill", set.fill, "CSV: for missing values: mean, or a number");
  command.add_option("--categories", set.categories, "CSV: onehot (default) or index");
  command.add_option("--header", set.header, "CSV: auto (default), yes, no");
  command.add_flag("--standardize", set.standardize, "CSV: numbers as (x - mean) / deviation");
  command.add_option("--text", set.text, "Texts (.txt): characters (default) or words");
  command.add_option("--vocabulary", set.vocabulary, "Texts: words that are kept; default 10000")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 30));
  command.add_option("--window", set.window, "Rows of a series that make one sample")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command.add_option("--stride", set.stride, "Rows from one window to the next")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command
      .add_option("--horizon", set.horizon, "Rows from a window's last to its target; default 1")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command.add_flag("--skip-damaged", set.skip_damaged,
                   "Images: leave out those that cannot be decoded");
  command.add_option("--cache", set.cache,
                     "Images: a folder that keeps decoded samples, for later epochs and runs");
  command.add_option("--cache-limit", options.cache_limit,
                     "Largest file there: 20GiB, 50% of the free space (the default)");
  command.add_option("--spill-dir", set.spill_directory,
                     "Folder for the spill file and temporary files; default: $TMPDIR, then "
                     "/var/tmp");
}

data::Dataset open(const DataOptions& options, const Loaded& loaded) {
  const AccountedScope scope(MemoryPart::kData);
  const data::DatasetOptions shapes = with_shapes(options, loaded);
  data::DatasetOptions set = shapes;
  set.data = place_paths("--data", options.data, set.inputs);
  set.labels = place_paths("--labels", options.labels, set.outputs);
  if (options.like.empty()) return open_told(set);
  data::DatasetOptions other = shapes;
  other.data = place_paths("--like", options.like, other.inputs);
  other.weights.clear();
  const data::Dataset like = data::open_dataset(other);
  data::Dataset dataset = open_told(set, &like);
  dataset.opening_peak = max(like.opening_peak, like.held_bytes() + dataset.opening_peak);
  return dataset;
}

void add_training_data_options(CLI::App& command, TrainingDataOptions& options, DataNeed need) {
  add_data_options(command, options.data, need);
  CLI::Option* validation =
      add_paths(command, "--validation", options.validation, "Samples to evaluate on every epoch");
  add_paths(command, "--validation-labels", options.validation_labels, "Their labels");
  command
      .add_option("--validation-split", options.validation_split,
                  "Part of --data to evaluate on instead: the last, as 0.2")
      ->check(CLI::Range(0.0, 1.0))
      ->excludes(validation);
  command.add_option("--class-weights", options.class_weights,
                     "Weights of classes: balanced, or 0:1,1:3.5");
}

TrainingData open_training(const TrainingDataOptions& options, uint64_t seed, Loaded& loaded) {
  const AccountedScope scope(MemoryPart::kData);
  TrainingData opened;
  opened.train = open(options.data, loaded);
  if (!options.validation.empty()) {
    data::DatasetOptions set = with_shapes(options.data, loaded);
    set.data = place_paths("--validation", options.validation, set.inputs);
    set.labels = place_paths("--validation-labels", options.validation_labels, set.outputs);
    set.weights.clear();
    opened.validation = std::make_unique<data::Dataset>(open_told(set, &opened.train));
  } else if (options.validation_split > 0) {
    opened.validation = std::make_unique<data::Dataset>(
        data::split_off(opened.train, options.validation_split, seed));
  }
  if (!options.class_weights.empty()) {
    data::DatasetOptions set;
    name_ports(loaded.file.model, loaded.compile, set);
    const bool class_numbers = set.outputs.size() == 1 && set.outputs.front().class_numbers;
    data::weight_classes(opened.train, options.class_weights, class_numbers);
  }
  weigh_samples(opened.train, loaded.compile);
  opened.rows.train = opened.train.row_count();
  opened.resident = opened.train.resident_bytes();
  if (opened.validation) {
    if (loaded.compile.sample_weights) data::add_unit_weights(*opened.validation, opened.train);
    opened.rows.evaluate = opened.validation->row_count();
    opened.resident += opened.validation->resident_bytes();
  }
  opened.opening = train::opening_of(opened.train, opened.validation.get());
  return opened;
}

}  // namespace plimsoll::cli
