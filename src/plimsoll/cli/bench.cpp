// plimsoll bench: how fast workloads run on this machine, and how far each kernel is from what the
// machine could do. Every workload runs in a process of its own.

#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "bench/machine.h"
#include "bench/measure.h"
#include "bench/workloads.h"
#include "cli/bench_estimates.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/printer.h"
#include "cli/profile_file.h"
#include "cli/rates.h"
#include "report/speed.h"
#include "run/settings.h"

namespace plimsoll::cli {
namespace {

struct BenchCommand {
  std::vector<std::string> names;
  ModelOptions model;
  run::DataPaths data;
  int64_t batch = 0;  // 0: the workload's
  int64_t steps = 0;  // 0: the workload's
  std::string program = "train";
  bool all = false;
  bool list = false;
  bool roofline = false;
  bool coverage = false;
  bool estimates = false;
  std::string profile_output;

  bool asks_times() const { return roofline || coverage || !profile_output.empty(); }
};

bench::Request request_for(const BenchCommand& command, const std::string& name) {
  bench::Request request;
  request.name = name;
  request.model = model_request(command.model);
  request.settings = settings_of(command.model, command.data.set.spill_directory);
  request.profile = command.asks_times();
  request.calls = command.model.json || !command.profile_output.empty();
  request.data = command.data;
  request.program = bench::parse_program("--program", command.program);
  request.batch = command.batch;
  request.steps = command.steps;
  return request;
}

// Prints what was measured of one workload; tables of its kernels below its name.
int show(const BenchCommand& command, const std::string& name,
         const std::optional<report::MachineSpeed>& machine) {
  Printer printer(command.model.json);
  report::Speed speed = bench::measure(request_for(command, name), printer);
  if (speed.profile) speed.profile->machine = machine;
  if (!command.profile_output.empty()) write_profile(command.profile_output, *speed.profile);
  if (command.coverage) speed.coverage = report::find_coverage(*speed.profile);
  if (!command.roofline && command.profile_output.empty()) speed.profile.reset();
  if (command.model.json) {
    std::fputs(report::to_json(speed).c_str(), stdout);
  } else {
    std::fputs(report::to_line(speed).c_str(), stdout);
    if (command.roofline) std::fputs((report::to_text(*speed.profile) + "\n").c_str(), stdout);
    if (command.coverage) std::fputs((report::to_text(*speed.coverage) + "\n").c_str(), stdout);
  }
  return kDone;
}

// In a process of its own, so that each workload's memory is its own; the exit code.
int show_apart(const BenchCommand& command, const std::string& name,
               const std::optional<report::MachineSpeed>& machine, bool& is_child) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) {
    throw Error(ErrorKind::kIo, "bench: cannot start a process for " + name + ".");
  }
  if (child == 0) {
    is_child = true;
    return show(command, name, machine);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  std::fprintf(stderr, "plimsoll: bench: %s: ended by signal %d\n", name.c_str(), WTERMSIG(status));
  return kFileFailure;
}

int show_estimates(BenchCommand command, const std::vector<std::string>& names) {
  run::Settings settings = settings_of(command.model, command.data.set.spill_directory);
  ask_for_rates(settings);
  command.model.settings.measure_rates = settings.measure_rates;
  bool is_child = false;
  return run_estimates(
      names, command.model.json,
      [&](const std::string& name) {
        Printer printer(command.model.json);
        bench::Request request = request_for(command, name);
        request.profile = true;
        return *bench::measure(request, printer).profile;
      },
      is_child);
}

std::vector<std::string> chosen(const BenchCommand& command) {
  constexpr size_t kSmall = 11;  // workloads that take a second or two
  if (command.all) return bench::workload_names();
  if (!command.names.empty()) return command.names;
  const std::vector<std::string>& names = bench::workload_names();
  return {names.begin(), names.begin() + kSmall};
}

int run(const BenchCommand& command) {
  if (command.list) {
    for (const std::string& name : bench::workload_names()) std::puts(name.c_str());
    return kDone;
  }
  bench::parse_program("--program", command.program);  // said once, not of every workload
  const std::vector<std::string> names = chosen(command);
  if (command.estimates) return show_estimates(command, names);
  std::optional<report::MachineSpeed> machine;
  if (command.asks_times()) {
    machine = bench::measure_machine(
        command.model.settings.threads,
        bench::room_within(run::parse_memory("--memory", command.model.memory)));
  }
  if (!command.model.json) {
    if (command.roofline) std::printf("%s\n\n", report::to_text(*machine).c_str());
    std::fputs(report::speed_header().c_str(), stdout);
  }
  int code = kDone;
  for (const std::string& name : names) {
    bool is_child = false;
    const int ended = show_apart(command, name, machine, is_child);
    if (is_child) return ended;
    code = std::max(code, ended);
  }
  return code;
}

}  // namespace

Command add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchCommand>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measure workloads, or a model, and how far each kernel is from the machine");
  ModelOptions& model = options->model;
  command->add_option("NAME", options->names,
                      "Workloads, or model files; default: the small workloads");
  command->add_flag("--all", options->all, "Every workload");
  command->add_flag("--list", options->list, "Print the workloads' names");
  command->add_flag("--roofline", options->roofline,
                    "Print each kernel's time beside what this machine needs at least");
  command->add_flag("--coverage", options->coverage,
                    "Print for each operator its share of the step and of its limit here");
  command->add_flag("--estimates", options->estimates,
                    "Print how far estimated times are from measured ones, by family of operators");
  command->add_option("--times", model.settings.times,
                      "Folder of measured times, or none, as plan's");
  command->add_option(
      "--profile-output", options->profile_output,
      "File for kernels' times as JSON; .html: a page; .trace.json: for viewers of traces");
  command->add_option("--program", options->program, "train (default), evaluate or predict");
  command->add_option("--batch", options->batch, "Samples per step; default: the workload's, or 32")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  command->add_option("--steps", options->steps, "Steps of training, or batches of random data")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command->add_option("--memory", model.memory, "Limit of process memory: 512MiB, 2GB, 75%");
  command
      ->add_option("--threads", model.settings.threads,
                   "Threads; default: what the process may use")
      ->check(CLI::Range(1, 1024));
  command->add_option("--precision", model.settings.precision, "f32, bf16");
  command->add_option("--batch-norm", model.model.batch_norm, "full, slice:N");
  command->add_option("--optimizer", model.model.optimizer,
                      "As fit's; default: the workload's or file's");
  command->add_option("--loss", model.model.loss, "Of a model file, as fit's");
  command->add_option("--backend", model.settings.backend,
                      "onednn, cpu, reference, null, sleeping");
  command
      ->add_option("--data", options->data.data,
                   "Samples of a model file; default: random numbers of its shapes")
      ->allow_extra_args(false);
  command->add_option("--labels", options->data.labels, "Their labels")->allow_extra_args(false);
  command->add_flag("--json", model.json, "One JSON object a workload, in a line of its own");
  return [options] { return run(*options); };
}

}  // namespace plimsoll::cli
