#include "cli/data_options.h"

#include <CLI/CLI.hpp>

namespace plimsoll::cli {
namespace {

// One word each time that the option is given.
CLI::Option* add_paths(CLI::App& command, const char* name, std::vector<std::string>& words,
                       const char* text) {
  return command.add_option(name, words, text)->allow_extra_args(false);
}

}  // namespace

void add_data_options(CLI::App& command, run::DataPaths& options, DataNeed need) {
  data::DatasetOptions& set = options.set;
  CLI::Option* data =
      add_paths(command, "--data", options.data,
                "Samples: .npy, .npz, IDX, .csv, .txt, .h5, .tfrecord, also .gz; - "
                "(standard input); a folder of chunks or of class folders of images; several "
                "inputs: NAME=PATH for each")
          ->type_name("PATH");
  if (need != DataNeed::kOptional) data->required();
  if (need != DataNeed::kSamples) {
    add_paths(command, "--labels", options.labels,
              "Labels, when they are a file of their own, or a folder of masks; several outputs: "
              "NAME=PATH for each")
        ->type_name("PATH");
    command
        .add_option("--sample-weights", set.weights,
                    "One weight per sample, or one for each step or pixel")
        ->type_name("PATH");
  }
  add_paths(command, "--like", options.like,
            "Data whose categories, classes and scale hold for --data: what was trained on")
      ->type_name("PATH");
  command.add_option("--label-column", set.label_column, "CSV: the label's column, name or number")
      ->type_name("COLUMN");
  command.add_option("--columns", set.columns, "CSV: columns to use, names or numbers")
      ->type_name("COLUMNS");
  command.add_option("--fill", set.fill, "CSV: for missing values: mean, or a number")
      ->type_name("VALUE");
  command.add_option("--categories", set.categories, "CSV: onehot (default) or index")
      ->type_name("HOW");
  command.add_option("--header", set.header, "CSV: auto (default), yes, no")->type_name("HOW");
  command.add_flag("--standardize", set.standardize, "CSV: numbers as (x - mean) / deviation");
  command.add_option("--text", set.text, "Texts (.txt): characters (default) or words")
      ->type_name("HOW");
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
  command
      .add_option("--cache", set.cache,
                  "Images: a folder that keeps decoded samples, for later epochs and runs")
      ->type_name("FOLDER");
  command
      .add_option("--cache-limit", options.cache_limit,
                  "Largest file there: 20GiB, 50% of the free space (the default)")
      ->type_name("SIZE");
  command
      .add_option("--spill-dir", set.spill_directory,
                  "Folder for the spill file and temporary files; default: $TMPDIR, then "
                  "/var/tmp")
      ->type_name("FOLDER");
}

void add_training_data_options(CLI::App& command, TrainingDataOptions& options, DataNeed need) {
  add_data_options(command, options.data, need);
  CLI::Option* validation =
      add_paths(command, "--validation", options.validation, "Samples to evaluate on every epoch")
          ->type_name("PATH");
  add_paths(command, "--validation-labels", options.validation_labels, "Their labels")
      ->type_name("PATH");
  command
      .add_option("--validation-split", options.validation_split,
                  "Part of --data to evaluate on instead: the last, as 0.2")
      ->type_name("PART")
      ->check(CLI::Range(0.0, 1.0))
      ->excludes(validation);
  command
      .add_option("--class-weights", options.class_weights,
                  "Weights of classes: balanced, or 0:1,1:3.5")
      ->type_name("WEIGHTS");
}

run::DataRequest data_request(const TrainingDataOptions& options) {
  return {options.data, nullptr};
}

run::DataRequest validation_request(const TrainingDataOptions& options) {
  run::DataRequest request;
  if (options.validation.empty()) return request;
  request.paths = options.data;
  request.paths.set.weights.clear();
  request.paths.data = options.validation;
  request.paths.labels = options.validation_labels;
  request.paths.like.clear();
  request.paths.data_option = "--validation";
  request.paths.labels_option = "--validation-labels";
  return request;
}

}  // namespace plimsoll::cli
