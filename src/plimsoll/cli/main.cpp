// plimsoll: parses the command line, calls one command, turns errors into messages and exit codes.

#include <malloc.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"
#include "cli/commands.h"
#include "cli/exit_code.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kVersion = "plimsoll " PLIMSOLL_VERSION;
constexpr int kTrimThresholdBytes = 1 << 20;

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// What the parser did not understand, with the nearest thing that it would have.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  std::vector<std::string> known;
  for (const CLI::App* subcommand : app.get_subcommands({})) {
    known.push_back(subcommand->get_name());
    if (subcommand->parsed()) command = subcommand;
  }
  std::string message = error.what();
  if (command != &app) known = option_names(*command);
  std::vector<std::string> left = app.remaining(true);
  if (!left.empty()) {
    message = "expected " +
              std::string(command == &app ? "a command" : "an option of " + command->get_name()) +
              ", received " + left.front() + "." + did_you_mean(left.front(), known);
  }
  return message + "\nTry: plimsoll " + (command == &app ? "" : command->get_name() + " ") +
         "--help";
}

int run(int argc, char** argv) {
  CLI::App app{"Plimsoll trains neural networks inside a memory limit that you name."};
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  std::map<std::string, Command> commands{
      {"plan", add_plan(app)},       {"fit", add_fit(app)},         {"evaluate", add_evaluate(app)},
      {"predict", add_predict(app)}, {"show", add_show(app)},       {"convert", add_convert(app)},
      {"check", add_check(app)},     {"explain", add_explain(app)},
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "plimsoll: %s\n", usage_message(app, error).c_str());
    return kUsage;
  }
  return commands.at(app.get_subcommands().front()->get_name())();
}

}  // namespace
}  // namespace plimsoll::cli

int main(int argc, char** argv) {
  using plimsoll::cli::kOurBug;
  // One malloc arena and early trimming: what is freed goes back to the system.
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, plimsoll::cli::kTrimThresholdBytes);
  try {
    return plimsoll::cli::run(argc, argv);
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "plimsoll: %s\n", error.what());
    return plimsoll::cli::exit_code_of(error.kind());
  } catch (const std::bad_alloc&) {
    std::fputs("plimsoll: the system refused memory outside of the plan\n", stderr);
    return plimsoll::cli::kFileFailure;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plimsoll: internal error: %s\n", error.what());
    return kOurBug;
  }
}
