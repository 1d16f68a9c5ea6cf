// plimsoll check: whether a model file can be trained, and every reason why not.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/file_options.h"
#include "formats/json_text.h"
#include "formats/model_check.h"
#include "train/self_test.h"

namespace plimsoll::cli {
namespace {

struct CheckCommand {
  std::string model;
  FileOptions file;
  bool json = false;
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

void print_json(const CheckCommand& command, const formats::CheckReport& report) {
  using layers::Config;
  const auto list = [](const std::vector<std::string>& texts) {
    Config::Array items;
    for (const std::string& text : texts) items.emplace_back(text);
    return Config(std::move(items));
  };
  const Config json = Config::Object{{"model", command.model},
                                     {"can_be_trained", report.reasons.empty()},
                                     {"has_weights", report.has_weights},
                                     {"has_training_configuration", report.is_compiled},
                                     {"reasons", list(report.reasons)},
                                     {"notes", list(report.notes)}};
  std::printf("%s\n", formats::print_json(json, 2).c_str());
}

int run(const CheckCommand& command) {
  formats::CheckReport report = formats::check_model(command.model, load_options(command.file));
  check_self_test(command, report);
  if (command.json) {
    print_json(command, report);
    return report.reasons.empty() ? kDone : kModelRefused;
  }
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
  command->add_flag("--json", options->json, "One JSON object on standard output");
  return [options] { return run(*options); };
}

}  // namespace plimsoll::cli
