// plimsoll check: whether a model file can be trained, and every reason why not.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/file_options.h"
#include "formats/model_check.h"
#include "train/self_test.h"

namespace plimsoll::cli {
namespace {

struct CheckCommand {
  std::string model;
  FileOptions file;
};

// What the file says of itself, where nothing else was found.
void check_self_test(const CheckCommand& command, formats::CheckReport& report) {
  if (!report.reasons.empty() || !report.has_weights) return;
  const formats::LoadedModel loaded =
      formats::load_model(command.model, load_options(command.file));
  if (loaded.self_test == nullptr) return;
  try {
    train::check_self_test(command.model, loaded.model, *loaded.weights, *loaded.self_test, {});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) throw;
    report.reasons.push_back(error.message());
  }
}

int run(const CheckCommand& command) {
  formats::CheckReport report = formats::check_model(command.model, load_options(command.file));
  check_self_test(command, report);
  if (report.reasons.empty()) {
    std::printf("%s: can be trained. Weights: %s. Training configuration: %s.\n",
                command.model.c_str(), report.has_weights ? "in the file" : "none",
                report.is_compiled ? "in the file" : "none");
    for (const std::string& note : report.notes) std::printf("  - %s\n", note.c_str());
    return kDone;
  }
  std::printf("%s: cannot be trained, for %zu reason%s:\n", command.model.c_str(),
              report.reasons.size(), report.reasons.size() == 1 ? "" : "s");
  for (const std::string& reason : report.reasons) std::printf("  - %s\n", reason.c_str());
  return kModelRefused;
}

}  // namespace

Command add_check(CLI::App& app) {
  auto options = std::make_shared<CheckCommand>();
  CLI::App* command =
      app.add_subcommand("check", "Whether a model can be trained, and every reason why not");
  command->add_option("MODEL", options->model, "Model file: .keras, .h5 or Keras JSON")->required();
  add_file_options(*command, options->file);
  return [options] { return run(*options); };
}

}  // namespace plimsoll::cli
