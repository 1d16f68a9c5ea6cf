#pragma once

// Options of `fit` for what happens at the ends of epochs, and the logs that it keeps beside --log.

#include <memory>
#include <string>

#include "report/event_file.h"
#include "trace/csv_log.h"
#include "train/callbacks.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace plimsoll::cli {

struct CallbackOptions {
  std::string monitor;
  bool stop_early = false;  // --early-stopping was given
  std::string early_stopping;
  bool lower_rate = false;
  std::string plateau;
  std::string keep_best;
  std::string csv_log;
  std::string tensorboard;
  int64_t histogram_every = 0;  // epochs; 0: none
};
void add_callback_options(CLI::App& command, CallbackOptions& options);

// Rules as the options say; `checkpoint` is the folder of the run's checkpoints, or "".
train::CallbackOptions read_callbacks(const CallbackOptions& options, const std::string& checkpoint,
                                      const std::string& spill_directory);

// Logs of epochs. Each is made where it was asked for.
struct EpochLogs {
  std::unique_ptr<trace::CsvLog> csv;
  std::unique_ptr<report::EventFile> events;
  int64_t histogram_every = 0;
  // Beside the metrics: what was planned and what the kernel counts, in MiB; now and then the
  // weights' histograms.
  void epoch(const train::EpochResult& result, train::Session& session);
};
// `plan` is what is shown as a text, beside the memory at the session's peak by layer and kind.
EpochLogs open_epoch_logs(const CallbackOptions& options, int64_t epochs_before,
                          const std::string& plan, const train::Session& session);

}  // namespace plimsoll::cli
