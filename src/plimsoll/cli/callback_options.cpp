#include "cli/callback_options.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "formats/model_file.h"
#include "report/memory_picture.h"

namespace plimsoll::cli {
namespace {

// Under the names that Keras's callback gives them.
void write_histograms(report::EventFile& events, int64_t epoch, train::Session& session) {
  const std::unique_ptr<TensorSource> state = session.state();
  const std::vector<graph::StateVariable> all = graph::states_of(session.programs().set);
  for (size_t i = 0; i < all.size(); ++i) {
    const bool weight = all[i].role == graph::StateRole::kWeight ||
                        all[i].role == graph::StateRole::kMovingStatistic;
    if (!weight || all[i].type.dtype != DType::kFloat32) continue;
    events.histogram(epoch, all[i].name + "/histogram", report::make_histogram(*state, i));
  }
}

}  // namespace

void add_callback_options(CLI::App& command, CallbackOptions& options) {
  command.add_option("--monitor", options.monitor,
                     "Metric that decides; default: val_loss, loss without validation");
  command.add_option_function<std::string>(
      "--early-stopping",
      [&options](const std::string& text) {
        options.stop_early = true;
        options.early_stopping = text;
      },
      "Stop without improvement, with the best weights: 5, 'patience=5,min_delta=0.001'");
  command.add_option_function<std::string>(
      "--reduce-on-plateau",
      [&options](const std::string& text) {
        options.lower_rate = true;
        options.plateau = text;
      },
      "Lower the learning rate without improvement: 'factor=0.1,patience=10'");
  command.add_option("--keep-best", options.keep_best,
                     "File for the model after its best epoch: .keras, .h5");
  command.add_option("--csv-log", options.csv_log, "Table: one line per epoch");
  command.add_option("--tensorboard", options.tensorboard, "Folder for TensorBoard's event files");
  command
      .add_option("--histograms", options.histogram_every,
                  "Histograms of the weights in them, every so many epochs")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
}

train::CallbackOptions read_callbacks(const CallbackOptions& options, const std::string& checkpoint,
                                      const std::string& spill_directory) {
  train::CallbackOptions callbacks;
  callbacks.monitor = options.monitor;
  if (options.stop_early) {
    callbacks.early_stopping = train::parse_early_stopping(options.early_stopping);
  }
  if (options.lower_rate) callbacks.plateau = train::parse_reduce_on_plateau(options.plateau);
  if (!options.keep_best.empty()) formats::check_output_name(options.keep_best);
  if (!checkpoint.empty()) callbacks.best_path = checkpoint + "/best.ckpt";
  callbacks.spill_directory = spill_directory;
  callbacks.say = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  return callbacks;
}

void EpochLogs::epoch(const train::EpochResult& result, train::Session& session) {
  if (csv) csv->epoch(result.epoch, result.metrics, result.seconds);
  if (!events) return;
  const train::MemoryReport memory = session.memory();
  const auto mebibytes = [](Bytes bytes) {
    return static_cast<double>(bytes.count()) / static_cast<double>((1_MiB).count());
  };
  train::Metrics scalars = result.metrics;
  scalars.emplace_back("memory/process_planned_mib", mebibytes(memory.predicted_process));
  scalars.emplace_back("memory/process_measured_mib", mebibytes(memory.measured_process));
  scalars.emplace_back("memory/arena_planned_mib", mebibytes(memory.planned_arena));
  scalars.emplace_back("memory/arena_measured_mib", mebibytes(memory.measured_arena));
  events->scalars(result.epoch, scalars);
  if (histogram_every > 0 && result.epoch % histogram_every == 0) {
    write_histograms(*events, result.epoch, session);
  }
}

EpochLogs open_epoch_logs(const CallbackOptions& options, int64_t epochs_before,
                          const std::string& plan, const train::Session& session) {
  EpochLogs logs;
  logs.histogram_every = options.histogram_every;
  if (!options.csv_log.empty()) {
    logs.csv = std::make_unique<trace::CsvLog>(options.csv_log, epochs_before);
  }
  if (!options.tensorboard.empty()) {
    logs.events = std::make_unique<report::EventFile>(options.tensorboard);
    // Four blanks in front of every line: Markdown's text as it stands.
    std::string indented = "    ";
    for (const char c : plan) {
      indented += c;
      if (c == '\n') indented += "    ";
    }
    logs.events->text(0, "plan", indented);
    const std::vector<report::MemoryRow> rows =
        report::memory_rows(plan::find_culprits(session.plan(), session.programs().set));
    logs.events->text(0, "memory", report::memory_table(rows));
    if (!rows.empty()) logs.events->image(0, "memory by layer", report::draw_memory(rows));
  }
  return logs;
}

}  // namespace plimsoll::cli
