#include "cli/fit_options.h"

#include <CLI/CLI.hpp>

namespace plimsoll::cli {

void add_callback_options(CLI::App& command, run::CallbackRequest& callbacks,
                          run::LogRequest& logs) {
  command
      .add_option("--monitor", callbacks.monitor,
                  "Metric that decides; default: val_loss, loss without validation")
      ->type_name("NAME");
  command
      .add_option_function<std::string>(
          "--early-stopping",
          [&callbacks](const std::string& text) { callbacks.early_stopping = text; },
          "Stop without improvement, with the best weights: 5, 'patience=5,min_delta=0.001'")
      ->type_name("RULE");
  command
      .add_option_function<std::string>(
          "--reduce-on-plateau",
          [&callbacks](const std::string& text) { callbacks.reduce_on_plateau = text; },
          "Lower the learning rate without improvement: 'factor=0.1,patience=10'")
      ->type_name("RULE");
  command
      .add_option("--keep-best", callbacks.keep_best,
                  "File for the model after its best epoch: .keras, .h5")
      ->type_name("FILE");
  command.add_option("--csv-log", logs.csv, "Table: one line per epoch")->type_name("FILE");
  command.add_option("--tensorboard", logs.tensorboard, "Folder for TensorBoard's event files")
      ->type_name("FOLDER");
  command
      .add_option("--histograms", logs.histogram_every,
                  "Histograms of the weights in them, every so many epochs")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
}

}  // namespace plimsoll::cli
