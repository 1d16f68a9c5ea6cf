// plimsoll bench: how fast workloads run on this machine, and how far each kernel is from what the
// machine could do. Every workload runs in a process of its own.

#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/cpu.h"
#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "bench/machine.h"
#include "bench/random_data.h"
#include "bench/workloads.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/printer.h"
#include "cli/profile_file.h"
#include "layers/training/batch_norm_groups.h"
#include "report/speed.h"
#include "run/model.h"
#include "run/open_data.h"
#include "run/settings.h"
#include "train/session.h"

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
  std::string profile_output;
};

// What is measured: a built-in workload, or a user's model.
struct Subject {
  bench::Workload workload;
  std::unique_ptr<TensorSource> weights;  // null: initial ones
};

bool is_model_file(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".keras") ||
         name.ends_with(".json") || name.ends_with(".h5");
}

Subject find_subject(const BenchCommand& command, const std::string& name) {
  const bool train = command.program == "train";
  if (!is_model_file(name)) {
    Subject subject{bench::make_workload(name), nullptr};
    subject.workload.compile.precision = layers::parse_precision(command.model.settings.precision);
    const run::ModelRequest& asked = command.model.model;
    if (!asked.batch_norm.empty()) {
      subject.workload.compile.batch_norm_group = layers::parse_batch_norm(asked.batch_norm);
    }
    if (!asked.optimizer.empty()) {
      subject.workload.compile.optimizer = layers::parse_optimizer(asked.optimizer);
    }
    if (command.batch > 0) subject.workload.batch = command.batch;
    return subject;
  }
  run::ModelRequest request = model_request(command.model);
  request.path = name;
  Printer printer(command.model.json);
  run::LoadedModel loaded =
      run::load(request, settings_of(command.model, command.data.set.spill_directory),
                {.optimizer = train, .loss = command.program != "predict"}, printer);
  bench::Workload workload{std::filesystem::path(name).filename().string(), loaded.file.model,
                           loaded.compile};
  if (command.batch > 0) workload.batch = command.batch;
  return {std::move(workload), std::move(loaded.file.weights)};
}

layers::CompileOptions compile_for(const std::string& program, const bench::Workload& workload) {
  layers::CompileOptions compile;
  compile.precision = workload.compile.precision;
  if (program == "predict") return compile;
  compile = workload.compile;
  if (program == "evaluate") compile.optimizer = layers::Config();
  return compile;
}

layers::BatchSizes sizes_for(const std::string& program, int64_t batch) {
  layers::BatchSizes sizes;
  (program == "train"      ? sizes.train
   : program == "evaluate" ? sizes.evaluate
                           : sizes.predict) = batch;
  return sizes;
}

// A file's samples where one is named, else random ones for so many whole batches.
data::Dataset samples_for(const BenchCommand& command, const Subject& subject, int64_t batches) {
  const bench::Workload& workload = subject.workload;
  const layers::CompileOptions compile = compile_for(command.program, workload);
  if (!command.data.data.empty()) {
    Printer printer(command.model.json);
    data::Dataset dataset =
        *run::open_data({command.data, nullptr}, workload.model, compile, true, printer);
    if (command.program == "predict") dataset.targets.clear();
    dataset.weights.clear();
    return dataset;
  }
  const layers::BuiltPrograms built =
      layers::build_programs(workload.model, compile, sizes_for(command.program, workload.batch));
  return bench::make_random_data(
      command.program == "predict" ? built.predict_inputs : built.train_inputs, workload.stored,
      batches * workload.batch);
}

// Predictions that nobody wants.
class NoSink : public OutputSink {
 public:
  void take(int, int64_t, int64_t, const void*) override {}
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds of single steps of training. The first ones, which meet memory that is not there yet,
// are left out where there are others, in the profile too.
std::vector<double> train_steps(train::Session& session, data::Dataset& dataset, int64_t steps) {
  constexpr size_t kWarmUp = 2;
  std::vector<double> seconds;
  seconds.reserve(static_cast<size_t>(steps));
  train::FitOptions options;
  options.epochs = int64_t{1} << 40;
  options.steps = steps;
  options.shuffle = data::Shuffle::kNone;
  double before = seconds_now();
  options.on_step = [&](int64_t, double) {
    const double now = seconds_now();
    seconds.push_back(now - before);
    if (seconds.size() == kWarmUp && steps > static_cast<int64_t>(kWarmUp)) {
      session.forget_profile();
    }
    before = now;
  };
  session.fit(dataset, nullptr, options);
  if (seconds.size() > kWarmUp) {
    seconds.erase(seconds.begin(), seconds.begin() + static_cast<int64_t>(kWarmUp));
  }
  return seconds;
}

// Seconds a step of whole passes over the data, of which the first does not count.
std::vector<double> pass_steps(train::Session& session, data::Dataset& dataset, bool evaluate,
                               int64_t batches) {
  constexpr int kPasses = 6;
  std::vector<double> seconds;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double begin = seconds_now();
    if (evaluate) {
      session.evaluate(dataset);
    } else {
      NoSink sink;
      session.predict(dataset, sink);
    }
    const double end = seconds_now();
    if (pass > 0) {
      seconds.push_back((end - begin) / static_cast<double>(batches));
    } else {
      session.forget_profile();
    }
  }
  return seconds;
}

train::SessionOptions choices(const BenchCommand& command, int64_t batch) {
  run::Settings settings = settings_of(command.model, command.data.set.spill_directory);
  settings.batch = batch;
  settings.profile = command.roofline || !command.profile_output.empty();
  return run::session_options(settings);
}

report::Speed describe(const BenchCommand& command, const bench::Workload& workload,
                       const train::Session& session, std::vector<double> seconds) {
  const CpuInfo cpu = read_cpu_info();
  const train::MemoryReport memory = session.memory();
  std::ranges::sort(seconds);
  report::Speed speed;
  speed.name = workload.name;
  speed.program = command.program;
  speed.precision = session.summary().precision;
  speed.isa = cpu.isa;
  speed.threads = session.plan().threads;
  speed.parameters = workload.model.parameters().total();
  speed.batch = workload.batch;
  speed.steps = static_cast<int64_t>(seconds.size());
  speed.median_seconds = seconds[seconds.size() / 2];
  speed.least_seconds = seconds.front();
  speed.predicted_process = memory.predicted_process;
  speed.measured_process = memory.measured_process;
  speed.limit = memory.limit;
  speed.block_set = session.summary().block_set;
  speed.kernel_set = session.summary().kernel_set;
  return speed;
}

report::Speed measure(const BenchCommand& command, const std::string& name) {
  constexpr Bytes kHeldBeside = 2_MiB;  // times, and the model that programs were made of twice
  const Subject subject = find_subject(command, name);
  const bench::Workload& workload = subject.workload;
  const int64_t steps = command.steps > 0 ? command.steps : workload.steps;
  data::Dataset dataset = samples_for(command, subject, steps);
  const int64_t row_count = dataset.row_count();
  planning::RowCounts rows;
  (command.program == "train"      ? rows.train
   : command.program == "evaluate" ? rows.evaluate
                                   : rows.predict) = row_count;
  train::Session session(workload.model, compile_for(command.program, workload),
                         choices(command, workload.batch), rows,
                         {dataset.resident_bytes() + kHeldBeside,
                          dataset.wants_ahead(workload.batch, data::Shuffle::kNone)});
  session.initialize(subject.weights.get());
  const int64_t batches = (row_count + workload.batch - 1) / workload.batch;
  std::vector<double> seconds =
      command.program == "train"
          ? train_steps(session, dataset, steps)
          : pass_steps(session, dataset, command.program == "evaluate", batches);
  report::Speed speed = describe(command, workload, session, std::move(seconds));
  if (command.roofline || !command.profile_output.empty()) speed.profile = session.profile();
  return speed;
}

// Prints what was measured of one workload; in the roofline, below its name.
int show(const BenchCommand& command, const std::string& name,
         const std::optional<report::MachineSpeed>& machine) {
  report::Speed speed = measure(command, name);
  if (speed.profile) speed.profile->machine = machine;
  if (!command.profile_output.empty()) write_profile(command.profile_output, *speed.profile);
  if (command.model.json) {
    std::fputs(report::to_json(speed).c_str(), stdout);
  } else {
    std::fputs(report::to_line(speed).c_str(), stdout);
    if (command.roofline) std::fputs((report::to_text(*speed.profile) + "\n").c_str(), stdout);
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

std::vector<std::string> chosen(const BenchCommand& command) {
  constexpr size_t kSmall = 11;  // workloads that take a second or two
  if (command.all) return bench::workload_names();
  if (!command.names.empty()) return command.names;
  const std::vector<std::string>& names = bench::workload_names();
  return {names.begin(), names.begin() + kSmall};
}

void check_program(const std::string& program) {
  const std::vector<std::string> known = {"train", "evaluate", "predict"};
  if (std::ranges::find(known, program) != known.end()) return;
  throw Error(ErrorKind::kConfig, "--program: expected train, evaluate or predict, received \"" +
                                      program + "\"." + did_you_mean(program, known));
}

int run(const BenchCommand& command) {
  if (command.list) {
    for (const std::string& name : bench::workload_names()) std::puts(name.c_str());
    return kDone;
  }
  check_program(command.program);
  const std::vector<std::string> names = chosen(command);
  std::optional<report::MachineSpeed> machine;
  if (command.roofline || !command.profile_output.empty()) {
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
  command->add_option("--profile-output", options->profile_output,
                      "File for that as JSON; .html: a page; .trace.json: for viewers of traces");
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
  command->add_option("--backend", model.settings.backend, "onednn, cpu, reference, null");
  command
      ->add_option("--data", options->data.data,
                   "Samples of a model file; default: random numbers of its shapes")
      ->allow_extra_args(false);
  command->add_option("--labels", options->data.labels, "Their labels")->allow_extra_args(false);
  command->add_flag("--json", model.json, "One JSON object a workload, in a line of its own");
  return [options] { return run(*options); };
}

}  // namespace plimsoll::cli
