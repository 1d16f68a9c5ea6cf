#include "cli/data_options.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "data/dataset_stages.h"

namespace plimsoll::cli {
namespace {

// What the model takes and gives per sample, for data that take the model's shape.
data::DatasetOptions with_shapes(data::DatasetOptions options, const Loaded& loaded) {
  const layers::Model& model = loaded.file.model;
  if (!model.inputs().empty()) {
    options.sample_shape = model.inputs().front().type.shape.at(1);
    options.sample_shape.erase(options.sample_shape.begin());
  }
  const std::vector<layers::Config>& losses = loaded.compile.losses;
  const layers::Config* loss = losses.empty() ? nullptr : losses.front().find("class_name");
  if (loss != nullptr && loss->as_string().starts_with("Sparse") && !model.outputs().empty()) {
    // Class numbers: one for each place that has an output for every class.
    const Shape& output = model.outputs().front().type.shape;
    options.target_elements = output.elements_per_sample() / output.at(1).back();
  } else if (!model.outputs().empty()) {
    options.target_elements = model.outputs().front().type.shape.elements_per_sample();
  }
  return options;
}

}  // namespace

void add_data_options(CLI::App& command, DataOptions& options, DataNeed need) {
  data::DatasetOptions& set = options.set;
  CLI::Option* data =
      command.add_option("--data", set.data,
                         "Samples: .npy, .npz, IDX, .csv, .txt, .h5, .tfrecord, also .gz; - "
                         "(standard input); a folder of chunks or of "
                         "class folders of images");
  if (need != DataNeed::kOptional) data->required();
  if (need != DataNeed::kSamples) {
    command.add_option("--labels", set.labels, "Labels, when they are a file of their own");
    command.add_option("--sample-weights", set.weights, "One weight per sample");
  }
  command.add_option(
      "--like", options.like,
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
  command.add_option("--spill-dir", set.spill_directory,
                     "Folder for the spill file and temporary files; default: $TMPDIR, then "
                     "/var/tmp");
}

data::Dataset open(const DataOptions& options, const Loaded& loaded) {
  const data::DatasetOptions set = with_shapes(options.set, loaded);
  if (options.like.empty()) return data::open_dataset(set);
  data::DatasetOptions other = set;
  other.data = options.like;
  other.labels.clear();
  other.weights.clear();
  const data::Dataset like = data::open_dataset(other);
  return data::open_dataset(set, &like);
}

void add_training_data_options(CLI::App& command, TrainingDataOptions& options, DataNeed need) {
  add_data_options(command, options.data, need);
  CLI::Option* validation =
      command.add_option("--validation", options.validation, "Samples to evaluate on every epoch");
  command.add_option("--validation-labels", options.validation_labels, "Their labels");
  command
      .add_option("--validation-split", options.validation_split,
                  "Part of --data to evaluate on instead: the last, as 0.2")
      ->check(CLI::Range(0.0, 1.0))
      ->excludes(validation);
  command.add_option("--class-weights", options.class_weights,
                     "Weights of classes: balanced, or 0:1,1:3.5");
}

TrainingData open_training(const TrainingDataOptions& options, uint64_t seed, Loaded& loaded) {
  TrainingData opened;
  opened.train = open(options.data, loaded);
  if (!options.validation.empty()) {
    data::DatasetOptions set = with_shapes(options.data.set, loaded);
    set.data = options.validation;
    set.labels = options.validation_labels;
    set.weights.clear();
    opened.validation = std::make_unique<data::Dataset>(data::open_dataset(set, &opened.train));
  } else if (options.validation_split > 0) {
    opened.validation = std::make_unique<data::Dataset>(
        data::split_off(opened.train, options.validation_split, seed));
  }
  if (!options.class_weights.empty()) data::weight_classes(opened.train, options.class_weights);
  loaded.compile.sample_weights = !opened.train.weights.empty();
  opened.rows.train = opened.train.row_count();
  opened.resident = opened.train.resident_bytes();
  if (opened.validation) {
    if (loaded.compile.sample_weights) data::add_unit_weights(*opened.validation);
    opened.rows.evaluate = opened.validation->row_count();
    opened.resident += opened.validation->resident_bytes();
  }
  return opened;
}

}  // namespace plimsoll::cli
