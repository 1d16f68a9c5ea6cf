#include "cli/program.h"

#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/log.h"
#include "base/process_memory.h"
#include "base/suggest.h"
#include "cli/exit_code.h"
#include "cli/help.h"

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

// "Samples per step" within a sentence; "CSV: …" stays.
std::string in_sentence(std::string text) {
  const auto upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (text.size() > 1 && upper(text[0]) && !upper(text[1])) text[0] += 'a' - 'A';
  return text;
}

// The words of `typed` that would do, where there are any to name.
std::string example(const CLI::App& command, const TypedCommand& typed,
                    const std::string& missing) {
  if (missing == "MODEL") return command_line(typed, {"model.keras"});
  if (missing == "--data") {
    std::vector<std::string> more = {"--data", "x.npy"};
    if (command.get_option_no_throw("--labels") != nullptr) {
      more.insert(more.end(), {"--labels", "y.npy"});
    }
    return command_line(typed, more);
  }
  if (missing == "--output") return command_line(typed, {"--output", "predictions.npy"});
  return "";
}

std::string missing_message(const CLI::App& command, const TypedCommand& typed,
                            const std::string& missing) {
  const CLI::Option* option = command.get_option_no_throw(missing);
  std::string message = command.get_name() + ": expected " + missing;
  if (option != nullptr) {
    const std::string what = option->get_description();
    message += " (" + in_sentence(what.substr(0, what.find(';'))) + ")";
  }
  message += ", received none.";
  const std::string better = example(command, typed, missing);
  if (better.empty()) return message;
  std::string stands;
  if (missing == "MODEL") stands = ", of a file that model.save(\"model.keras\") writes in Python";
  if (missing == "--data") {
    stands = command.get_option_no_throw("--labels") != nullptr
                 ? ", where x.npy and y.npy stand for your files"
                 : ", where x.npy stands for your file";
  }
  return message + " For example" + stands + ":\n  " + better;
}

// The option that an error is about: "--batch: Value abc not in range …".
const CLI::Option* find_blamed(const CLI::App& command, const std::string& message) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (message.starts_with(name + ":") || message.ends_with(": " + name)) return option;
    if (message.find(": " + name + " = ") != std::string::npos) return option;
  }
  return nullptr;
}

// What was typed for it, in order: "--batch 64", "--batch=64".
std::vector<std::string> values_of(const CLI::Option& option, const TypedCommand& typed) {
  const std::string name = option.get_name();
  std::vector<std::string> values;
  for (size_t i = 0; i < typed.words.size(); ++i) {
    const std::string& word = typed.words[i];
    if (word.starts_with(name + "=")) values.push_back(word.substr(name.size() + 1));
    if (word == name && i + 1 < typed.words.size()) values.push_back(typed.words[i + 1]);
  }
  return values;
}

std::string value_message(const CLI::App& command, const TypedCommand& typed,
                          const CLI::ParseError& error) {
  const std::string message = error.what();
  const CLI::Option* option = find_blamed(command, message);
  if (option == nullptr) return message;
  const std::vector<std::string> given = values_of(*option, typed);
  if (given.size() > 1 && option->get_items_expected_max() == 1) {
    return fmt::format("{}: expected once, received {} times, {} first and {} last. Leave one.",
                       option->get_name(), given.size(), given.front(), given.back());
  }
  std::string text = option->get_name() + ": expected " + in_sentence(option->get_description());
  if (const std::string range = value_range(*option); !range.empty()) {
    text += ", a number " + range;
  }
  return text + ", received " + (given.empty() ? "none" : given.front()) + ".";
}

// What the parser did not understand, with the nearest thing that it would have.
std::string usage_message(const CLI::App& app, const TypedCommand& typed,
                          const CLI::ParseError& error) {
  const CLI::App* command = &app;
  std::vector<std::string> known;
  for (const CLI::App* subcommand : app.get_subcommands({})) {
    known.push_back(subcommand->get_name());
    if (subcommand->parsed()) command = subcommand;
  }
  std::string message = error.what();
  constexpr std::string_view kRequired = " is required";
  if (command == &app) {
    std::string names;
    for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
    if (typed.words.empty()) message = "expected a command, received none: " + names + ".";
  } else {
    known = option_names(*command);
    if (message.ends_with(kRequired)) {
      message =
          missing_message(*command, typed, message.substr(0, message.size() - kRequired.size()));
    } else {
      message = value_message(*command, typed, error);
    }
  }
  std::vector<std::string> left = app.remaining(true);
  if (!left.empty()) {
    const std::string meant = did_you_mean(left.front(), known);
    message = "expected " +
              std::string(command == &app ? "a command" : "an option of " + command->get_name()) +
              ", received " + left.front() + "." + meant;
    // Options of a command that was not set apart.
    if (meant.empty() && command->get_name() == "watch") {
      message += " Put the command to be watched after --: plimsoll watch -- COMMAND...";
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
  app.formatter(std::make_shared<HelpFormatter>());
  app.name(argc > 0 ? argv[0] : "plimsoll");
  app.set_help_flag("--help,-h", "This text");
  app.set_version_flag("--version", kVersion, "The program's version");
  app.require_subcommand(1);
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  TypedCommand typed{app.get_name(), {}, cut_tail(arguments)};
  typed.words = arguments;
  std::map<std::string, Command> commands = add_commands(app, typed);
  for (CLI::App* command : app.get_subcommands({})) {
    // It takes a model and data.
    if (command->get_option_no_throw("--spill-dir") != nullptr) group_options(*command);
  }
  app.footer(
      "plimsoll COMMAND --help tells the options of one. Was your training killed?\n"
      "  plimsoll explain train.log                what its log says of that\n"
      "  plimsoll watch -- python train.py         run it again, under watch\n"
      "  plimsoll plan model.keras --memory 4GiB   whether it fits, and what would do");
  try {
    std::reverse(arguments.begin(), arguments.end());  // the parser takes from the back
    app.parse(std::move(arguments));
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "plimsoll: %s\n", usage_message(app, typed, error).c_str());
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
    std::fputs(
        "plimsoll: the system refused memory outside of the plan. Close other programs, or name a "
        "lower --memory.\n",
        stderr);
    return kFileFailure;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plimsoll: internal error: %s\n", error.what());
    return kOurBug;
  }
}

}  // namespace plimsoll::cli
