// plimsoll watch: starts a command, follows its memory, says how it ended and why.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/places.h"
#include "base/process_memory.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/typed_command.h"
#include "watch/restart.h"
#include "watch/run.h"
#include "watch/tell/page.h"
#include "watch/tell/summary.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kHistory = "plimsoll-watch-history.jsonl";

struct WatchCommand {
  std::vector<std::string> command;
  std::string memory;
  std::string guard = "auto";
  std::string json;
  std::string html;
  double high_mark = 90;
  double grace = 10;
  bool fail_over = false;
  bool quiet = false;
  bool no_gpu = false;
  watch::RestartOptions restart;
  std::string resume_arguments;
};

void tell(const std::string& text, bool quiet) {
  if (quiet) return;
  std::fprintf(stderr, "plimsoll watch: %s", text.c_str());
  std::fflush(stderr);
}

// Sizes as everywhere; what goes wrong is said of the option.
int64_t limit_of(const std::string& text) {
  try {
    return parse_bytes(text, memory_available_to_process()).count();
  } catch (const Error&) {
    const std::string is_auto =
        text == "auto" ? " auto is for plimsoll fit and plan, which choose what they use; a "
                         "command under watch needs a limit that is named."
                       : "";
    throw Error(ErrorKind::kConfig,
                "--memory: expected a limit such as 2GiB, 512MiB, 1.5GB, a count of bytes or 75% "
                "(of the memory that is available), received \"" +
                    text + "\"." + is_auto +
                    " Units: B, KiB, MiB, GiB, TiB (binary), kB, MB, GB, TB (decimal), %. Without "
                    "--memory nothing is limited.");
  }
}

watch::WatchOptions watch_options(const WatchCommand& command) {
  watch::WatchOptions options;
  options.command = command.command;
  if (!command.memory.empty()) {
    options.memory = limit_of(command.memory);
    // No program starts in less: a unit was forgotten.
    constexpr int64_t kLeast = int64_t{1} << 20;
    if (*options.memory < kLeast) {
      throw Error(ErrorKind::kConfig, "--memory: expected at least 1 MiB, received " +
                                          command.memory +
                                          ". A number alone counts bytes; write 2GiB or 512MiB.");
    }
  }
  if (command.guard == "cgroup") options.guard = watch::GuardWish::kGroup;
  if (command.guard == "sampling") options.guard = watch::GuardWish::kSampling;
  options.high_mark = command.high_mark / 100;
  options.grace_seconds = command.grace;
  options.with_gpu = !command.no_gpu;
  options.live = !command.quiet && ::isatty(STDERR_FILENO) == 1;
  // Python then prints its stack when it dies of SIGSEGV, SIGBUS, SIGABRT and the like.
  if (::getenv("PYTHONFAULTHANDLER") == nullptr) {
    options.environment.emplace_back("PYTHONFAULTHANDLER", "1");
  }
  return options;
}

int run(const WatchCommand& command) {
  if (command.command.empty()) {
    throw Error(ErrorKind::kConfig,
                "watch: expected a command after --, received none. For example: plimsoll watch "
                "--memory 2GiB -- python train.py");
  }
  const bool changes = !command.restart.halve.empty() ||
                       !command.restart.halve_environment.empty() ||
                       !command.restart.accumulate.empty() || !command.resume_arguments.empty();
  if (changes && command.restart.most == 0) {
    throw Error(ErrorKind::kConfig,
                "watch: expected --restart N with --halve, --halve-env, --accumulate or "
                "--resume-args, which change the command when it is run again. Add --restart 3.");
  }
  watch::RestartOptions restart = command.restart;
  restart.resume_arguments = watch::split_words(command.resume_arguments);
  if (restart.most > 0 && restart.history.empty()) restart.history = kHistory;
  check_text_name("--json", command.json);
  check_text_name("--html", command.html);
  if (!command.json.empty() && command.json != "-") check_place(command.json);
  if (!command.html.empty()) check_place(command.html);
  const watch::Run run = watch::watch_with_restarts(
      watch_options(command), restart,
      [&](const watch::Event& event) { tell(event.text + "\n", command.quiet); });
  tell(to_text(run), command.quiet);
  if (command.json == "-") {
    std::fputs(to_json(run).c_str(), stdout);
    std::fflush(stdout);
  } else if (!command.json.empty()) {
    write_text_file(command.json, to_json(run));
  }
  if (!command.html.empty()) write_text_file(command.html, to_html(run));
  if (command.fail_over && run.limit_passed) return kDoesNotFit;
  return run.exit_code;
}

void add_restart_options(CLI::App& app, WatchCommand& command) {
  app.add_option("--restart", command.restart.most,
                 "Run again, at most so many times, when memory is what it died of")
      ->check(CLI::Range(0, 1000));
  app.add_option("--halve", command.restart.halve, "Argument whose number is halved then");
  app.add_option("--halve-env", command.restart.halve_environment,
                 "Variable whose number is halved then");
  app.add_option("--accumulate", command.restart.accumulate,
                 "Argument whose number is doubled then");
  app.add_option("--resume-args", command.resume_arguments, "Arguments added then");
  app.add_option("--history", command.restart.history,
                 std::string("File that gets a line for each attempt (") + kHistory + ")");
}

}  // namespace

Command add_watch(CLI::App& app, const TypedCommand& typed) {
  auto options = std::make_shared<WatchCommand>();
  CLI::App* command =
      app.add_subcommand("watch", "Run a command, follow its memory, say how it ended and why");
  command->add_option("COMMAND", options->command, "What to run, after --");
  command->add_option("--memory", options->memory, "Limit of the command's memory: 2GiB, 75%");
  command->add_option("--guard", options->guard, "auto, cgroup or sampling")
      ->check(CLI::IsMember({"auto", "cgroup", "sampling"}));
  command->add_option("--json", options->json, "Write the record there; - for standard output")
      ->expected(0, 1)
      ->default_str("-");
  command->add_option("--html", options->html, "Write a page there");
  command
      ->add_option("--high-mark", options->high_mark,
                   "Percent of the limit at which evidence is taken (90)")
      ->check(CLI::Range(1.0, 100.0));
  command->add_option("--grace", options->grace, "Seconds from SIGTERM to SIGKILL (10)")
      ->check(CLI::Range(0.0, 86400.0));
  add_restart_options(*command, *options);
  command->add_flag("--fail-over", options->fail_over, "Exit code 3 when the limit is passed");
  command->add_flag("--quiet", options->quiet, "Print nothing but what the command prints");
  command->add_flag("--no-gpu", options->no_gpu, "Do not look for NVIDIA's library");
  command->footer(
      "Exit code: the command's own; 128 + N when signal N ended it; 127 or 126 when it\n"
      "could not be started; 3 with --fail-over when the limit was passed.\n"
      "For example: plimsoll watch --memory 2GiB --html run.html -- python train.py");
  return [options, &typed] {
    options->command.insert(options->command.end(), typed.tail.begin(), typed.tail.end());
    return run(*options);
  };
}

}  // namespace plimsoll::cli
