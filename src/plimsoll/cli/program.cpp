#include "cli/program.h"

#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/suggest.h"
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
    const std::string meant = did_you_mean(left.front(), known);
    message = "expected " +
              std::string(command == &app ? "a command" : "an option of " + command->get_name()) +
              ", received " + left.front() + "." + meant;
    // Options of a command that was not set apart.
    if (meant.empty() && command->get_name() == "watch") {
      message += " Put the command to be watched behind --: plimsoll watch -- COMMAND...";
    }
  }
  return message + "\nTry: plimsoll " + (command == &app ? "" : command->get_name() + " ") +
         "--help";
}

// Cuts the watched command off `arguments`.
std::vector<std::string> cut_tail(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != "watch") return {};
  const auto mark = std::find(arguments.begin(), arguments.end(), "--");
  if (mark == arguments.end()) return {};
  std::vector<std::string> tail(mark + 1, arguments.end());
  arguments.erase(mark, arguments.end());
  return tail;
}

int run(int argc, char** argv, const AddCommands& add_commands) {
  CLI::App app{"Plimsoll trains neural networks inside a memory limit that you name."};
  app.name(argc > 0 ? argv[0] : "plimsoll");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  std::map<std::string, Command> commands = add_commands(app, cut_tail(arguments));
  try {
    std::reverse(arguments.begin(), arguments.end());  // the parser takes from the back
    app.parse(std::move(arguments));
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "plimsoll: %s\n", usage_message(app, error).c_str());
    return kUsage;
  }
  return commands.at(app.get_subcommands().front()->get_name())();
}

}  // namespace

void own_the_process() {
  // One malloc arena and early trimming: what is freed goes back to the system.
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, kTrimThresholdBytes);
  own_heap();
  set_log_sink(log_to_standard_error);
}

int run_program(int argc, char** argv, const AddCommands& add_commands) {
  own_the_process();
  try {
    return run(argc, argv, add_commands);
  } catch (const Error& error) {
    std::fprintf(stderr, "plimsoll: %s\n", error.what());
    return exit_code_of(error.kind());
  } catch (const std::bad_alloc&) {
    std::fputs("plimsoll: the system refused memory outside of the plan\n", stderr);
    return kFileFailure;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plimsoll: internal error: %s\n", error.what());
    return kOurBug;
  }
}

}  // namespace plimsoll::cli
