#include "cli/options.h"

#include <CLI/CLI.hpp>

#include "graph/lanes.h"
#include "run/settings.h"

namespace plimsoll::cli {

namespace {

// How long a plan is searched for, what it may do, and the times that it is chosen by.
void add_search_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("--plan-time", options.settings.plan_time,
                  "Effort of the search for a plan, about so many seconds; default 2, and more "
                  "where nothing fits")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.01, 1e6));
  command
      .add_option("--max-slowdown", options.max_slowdown,
                  "The most time against that of the plan without a limit, as 1.5x")
      ->type_name("FACTOR");
  command
      .add_option("--without", options.settings.without,
                  "Techniques of the planner to do without, separated by commas")
      ->type_name("NAMES");
  command
      .add_option("--plan", options.settings.plan,
                  "A plan that `plan --output` wrote, to run as it is")
      ->type_name("FILE");
  command.add_flag("--tune", options.settings.tune,
                   "Time this model's kernels and the disk first, and keep the times for later "
                   "plans on this machine");
  command
      .add_option("--times", options.settings.times,
                  "Folder of such times, or none: take those of a model of processors; default "
                  "$XDG_CACHE_HOME/plimsoll")
      ->type_name("FOLDER");
  CLI::Option* spill = command.add_flag("--spill", options.spill,
                                        "A spill file wherever that is faster, not only where "
                                        "nothing fits without one");
  command.add_flag("--no-spill", options.no_spill, "Never a spill file")->excludes(spill);
  command
      .add_option("--spill-limit", options.spill_limit,
                  "Largest spill file: 20GiB, 50% of the free space (the default)")
      ->type_name("SIZE");
}

}  // namespace

void add_model_options(CLI::App& command, ModelOptions& options) {
  command.add_option("MODEL", options.model.path, "Model file: .keras, .h5 or Keras JSON")
      ->required();
  add_file_options(command, options.file);
  command.add_option("--batch", options.settings.batch, "Samples per step")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  command
      .add_option("--memory", options.memory,
                  "Limit of process memory: 512MiB, 2GB, 75%, auto (what others leave now)")
      ->type_name("SIZE");
  command
      .add_option("--optimizer", options.model.optimizer,
                  "adam, sgd, rmsprop, adamw; 'adam(learning_rate=0.001)'")
      ->type_name("NAME");
  command
      .add_option("--loss", options.model.loss,
                  "binary_crossentropy, 'sparse_categorical_crossentropy(from_logits=true)', …")
      ->type_name("NAME");
  command.add_option("--metrics", options.model.metrics, "accuracy,mse,…")->type_name("NAMES");
  command
      .add_option("--precision", options.settings.precision,
                  "f32, or bf16: mixed precision; default: what the file's layers say")
      ->type_name("f32|bf16");
  command
      .add_option("--batch-norm", options.model.batch_norm,
                  "Statistics in training: full (of the whole batch, the default), or slice:N: "
                  "of groups of N samples, another model")
      ->type_name("full|slice:N");
  command
      .add_option("--threads", options.settings.threads,
                  "Threads; default: what the process may use")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--parts", options.settings.parts,
                  "Into how many parts kernels cut their work: equal parts, equal bits, on any "
                  "number of threads; default: as many as threads, or the checkpoint's")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--lanes", options.settings.lanes,
                  "Lanes of the batch, a power of two: each is summed by itself, and their sums "
                  "are added up in a fixed tree; equal lanes, equal bits; default: 1, or the "
                  "checkpoint's")
      ->check(CLI::Range(int64_t{1}, graph::kMostLanes));
  command.add_option("--seed", options.settings.seed, "Seed of weights, dropout and shuffling");
  command
      .add_option("--backend", options.settings.backend, "onednn, cpu, reference, null, sleeping")
      ->type_name("NAME");
  add_search_options(command, options);
  command.add_flag("--json", options.json, "One JSON object on standard output, no progress");
}

run::ModelRequest model_request(const ModelOptions& options) {
  run::ModelRequest request = options.model;
  const formats::LoadOptions file = load_options(options.file);
  request.weights = file.weights;
  request.input_shapes = file.input_shapes;
  return request;
}

run::Settings settings_of(const ModelOptions& options, const std::string& spill_directory) {
  run::Settings settings = options.settings;
  settings.memory = run::parse_memory("--memory", options.memory);
  settings.max_slowdown = run::parse_slowdown("--max-slowdown", options.max_slowdown);
  if (options.no_spill) {
    settings.spill = planning::SpillUse::kNever;
  } else if (options.spill) {
    settings.spill = planning::SpillUse::kAlways;
  }
  settings.spill_directory = spill_directory;
  settings.spill_limit =
      run::parse_spill_limit("--spill-limit", options.spill_limit, spill_directory);
  settings.whole_process = true;  // the process is the run's alone
  return settings;
}

}  // namespace plimsoll::cli
