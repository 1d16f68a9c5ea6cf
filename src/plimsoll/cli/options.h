#pragma once

// Options that several commands share, and what they mean once read.
//
// Every spelling here is fixed: scripts rely on it. What is left out comes from the model file's
// own training configuration; what is in neither is asked for by name.

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "cli/file_options.h"
#include "formats/model_file.h"
#include "report/run_summary.h"
#include "train/session.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace plimsoll::cli {

struct ModelOptions {
  std::string model;
  FileOptions file;
  std::string optimizer;
  std::string loss;
  std::string metrics;  // comma-separated
  int64_t batch = 32;
  std::string memory;      // as the user spelled it; empty: none
  std::string precision;   // empty: of the file's layers
  std::string batch_norm;  // empty: the file's, else full
  std::string backend;
  int threads = 0;
  uint64_t seed = 0;
  std::optional<double> plan_time;  // effort of the search, in seconds of a machine of today
  std::string max_slowdown;         // "1.5x" or "1.5"; empty: none
  std::string without;              // techniques of the planner, separated by commas
  std::string plan;                 // a saved plan's file
  std::string times;                // folder of measured times, or "none"; empty: the user's
  bool tune = false;
  bool json = false;
  bool spill = false;
  bool no_spill = false;
  std::string spill_limit;  // as the user spelled it; empty: none
};

void add_model_options(CLI::App& command, ModelOptions& options);

// Loads the model and completes its training configuration with the options. `training`: a loss and
// an optimizer are needed; otherwise a loss (`needs_loss`) or nothing.
struct Loaded {
  formats::LoadedModel file;
  layers::CompileOptions compile;
  std::vector<std::string> left_out_metrics{};  // as layers::left_out_metrics has them; were said
};
Loaded load(const ModelOptions& options, bool needs_optimizer, bool needs_loss);

// Steps of the search that --plan-time stands for: a constant a second, so that equal command lines
// give equal plans on any machine.
int64_t plan_steps(const ModelOptions& options);
// Throws kConfig where it is no number from 1 on.
std::optional<double> max_slowdown(const ModelOptions& options);
// The text of --plan; empty: none.
std::string saved_plan(const ModelOptions& options);
std::optional<Bytes> memory_limit(const ModelOptions& options);
// What is told where planning takes long: "planning within 64 MiB".
std::string planning_text(std::optional<Bytes> limit);
planning::SpillUse spill_use(const ModelOptions& options);
std::optional<Bytes> spill_limit(const ModelOptions& options, const std::string& spill_directory);
// What the run planned and took, into what is printed of it.
void fill_memory(const train::Session& session, report::RunSummary& summary);
train::SessionOptions session_options(const ModelOptions& options,
                                      const std::string& spill_directory = "");

}  // namespace plimsoll::cli
