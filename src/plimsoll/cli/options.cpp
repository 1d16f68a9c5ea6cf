#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>

#include "base/accounted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process_memory.h"
#include "base/spill_folder.h"
#include "cli/exit_code.h"
#include "layers/training/batch_norm_groups.h"
#include "train/self_test.h"

namespace plimsoll::cli {
namespace {

// Commas outside of parentheses.
std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  int depth = 0;
  std::string part;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.push_back(part);
      part.clear();
    } else {
      part += c;
    }
  }
  if (!part.empty()) parts.push_back(part);
  return parts;
}

}  // namespace

void add_model_options(CLI::App& command, ModelOptions& options) {
  command.add_option("MODEL", options.model, "Model file: .keras, .h5 or Keras JSON")->required();
  add_file_options(command, options.file);
  command.add_option("--batch", options.batch, "Samples per step")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  command.add_option("--memory", options.memory,
                     "Limit of process memory: 512MiB, 2GB, 75%, auto (what others leave now)");
  command.add_option("--optimizer", options.optimizer,
                     "adam, sgd, rmsprop, adamw; 'adam(learning_rate=0.001)'");
  command.add_option("--loss", options.loss,
                     "binary_crossentropy, 'sparse_categorical_crossentropy(from_logits=true)', …");
  command.add_option("--metrics", options.metrics, "accuracy,mse,…");
  command.add_option("--precision", options.precision,
                     "f32, or bf16: mixed precision; default: what the file's layers say");
  command.add_option("--batch-norm", options.batch_norm,
                     "Statistics in training: full (of the whole batch, the default), or slice:N: "
                     "of groups of N samples, another model");
  command.add_option("--threads", options.threads, "Threads; default: what the process may use")
      ->check(CLI::Range(1, 1024));
  command.add_option("--seed", options.seed, "Seed of weights, dropout and shuffling");
  command.add_option("--backend", options.backend, "onednn, cpu, reference, null");
  command
      .add_option("--plan-time", options.plan_time,
                  "Effort of the search for a plan, about so many seconds; default 2, and more "
                  "where nothing fits")
      ->check(CLI::Range(0.01, 1e6));
  command.add_option("--max-slowdown", options.max_slowdown,
                     "The most time against that of the plan without a limit, as 1.5x");
  command.add_option("--without", options.without,
                     "Techniques of the planner to do without, separated by commas");
  command.add_option("--plan", options.plan, "A plan that `plan --output` wrote, to run as it is");
  command.add_flag("--tune", options.tune,
                   "Time this model's kernels and the disk first, and keep the times for later "
                   "plans on this machine");
  command.add_option("--times", options.times,
                     "Folder of such times, or none: take those of a model of processors; default "
                     "$XDG_CACHE_HOME/plimsoll");
  CLI::Option* spill = command.add_flag("--spill", options.spill,
                                        "A spill file wherever that is faster, not only where "
                                        "nothing fits without one");
  command.add_flag("--no-spill", options.no_spill, "Never a spill file")->excludes(spill);
  command.add_option("--spill-limit", options.spill_limit,
                     "Largest spill file: 20GiB, 50% of the free space (the default)");
  command.add_flag("--json", options.json, "One JSON object on standard output, no progress");
}

Loaded load(const ModelOptions& options, bool needs_optimizer, bool needs_loss) {
  const AccountedScope scope(MemoryPart::kFiles);
  const layers::Precision precision = layers::parse_precision(options.precision);
  std::optional<int64_t> batch_norm_group;
  if (!options.batch_norm.empty()) batch_norm_group = layers::parse_batch_norm(options.batch_norm);
  Loaded loaded{formats::load_model(options.model, load_options(options.file)), {}, {}};
  if (loaded.file.self_test != nullptr && loaded.file.weights != nullptr) {
    train::check_self_test(options.model, loaded.file.model, *loaded.file.weights,
                           *loaded.file.self_test, session_options(options));
  }
  if (loaded.file.compile) loaded.compile = *loaded.file.compile;
  loaded.compile.precision = precision;
  if (batch_norm_group) loaded.compile.batch_norm_group = *batch_norm_group;
  if (!options.optimizer.empty()) {
    loaded.compile.optimizer = layers::parse_optimizer(options.optimizer);
    // Another optimizer starts afresh: the file's slots and learning rate are not its own.
    loaded.file.weights = formats::without_optimizer(std::move(loaded.file.weights));
  }
  if (!options.loss.empty()) {
    layers::replace_losses(loaded.compile, {layers::parse_loss(options.loss)});
  }
  if (!options.metrics.empty()) {
    std::vector<layers::Config> metrics;
    for (const std::string& name : split_list(options.metrics)) {
      metrics.push_back(layers::parse_metric(name));
    }
    layers::replace_metrics(loaded.compile, std::move(metrics));
  }
  const std::string where = options.model + " holds no training configuration: ";
  if (needs_optimizer && loaded.compile.optimizer.is_null()) {
    throw Error(ErrorKind::kConfig, where + "expected --optimizer, for example --optimizer adam");
  }
  if (needs_loss && loaded.compile.losses.empty() && loaded.compile.unread_loss.empty()) {
    throw Error(ErrorKind::kConfig,
                where + "expected --loss, for example --loss sparse_categorical_crossentropy");
  }
  if (needs_loss) {
    loaded.left_out_metrics = layers::left_out_metrics(loaded.file.model, loaded.compile);
    for (const std::string& line : loaded.left_out_metrics) {
      std::fprintf(stderr, "%s: %s\n", options.model.c_str(), line.c_str());
    }
  }
  return loaded;
}

int64_t plan_steps(const ModelOptions& options) {
  constexpr double kStepsPerSecond = 100'000;
  constexpr double kDefault = 2;
  return static_cast<int64_t>(options.plan_time.value_or(kDefault) * kStepsPerSecond);
}

std::optional<double> max_slowdown(const ModelOptions& options) {
  std::string_view text = options.max_slowdown;
  if (text.empty()) return std::nullopt;
  if (text.ends_with('x')) text.remove_suffix(1);
  double factor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc() || end != text.data() + text.size() || !(factor >= 1)) {
    throw Error(ErrorKind::kConfig,
                "--max-slowdown: expected a factor from 1 on, as 1.5x, received \"" +
                    options.max_slowdown + "\".");
  }
  return factor;
}

std::string saved_plan(const ModelOptions& options) {
  constexpr int64_t kMostBytes = int64_t{1} << 28;
  return options.plan.empty() ? "" : read_text_file(options.plan, kMostBytes);
}

namespace {

// What is wrong with a size is told of the option that it was given to.
Bytes read_size(const std::string& option, const std::string& text, Bytes whole) {
  try {
    return parse_bytes(text, whole);
  } catch (const Error& error) {
    constexpr std::string_view kPlace = "size: ";
    std::string_view message = error.message();
    if (message.starts_with(kPlace)) message.remove_prefix(kPlace.size());
    throw Error(error.kind(), option + ": " + std::string(message));
  }
}

}  // namespace

std::optional<Bytes> memory_limit(const ModelOptions& options) {
  if (options.memory.empty()) return std::nullopt;
  if (options.memory == "auto") return memory_safe_for_process();
  return read_size("--memory", options.memory, memory_available_to_process());
}

std::string planning_text(std::optional<Bytes> limit) {
  return limit ? "planning within " + to_string(*limit) : "planning";
}

planning::SpillUse spill_use(const ModelOptions& options) {
  if (options.no_spill) return planning::SpillUse::kNever;
  return options.spill ? planning::SpillUse::kAlways : planning::SpillUse::kIfNeeded;
}

std::optional<Bytes> spill_limit(const ModelOptions& options, const std::string& spill_directory) {
  if (options.spill_limit.empty()) return std::nullopt;
  return read_size("--spill-limit", options.spill_limit,
                   free_space(choose_spill_folder(spill_directory)));
}

void fill_memory(const train::Session& session, report::RunSummary& summary) {
  const train::MemoryReport memory = session.memory();
  summary.planned_arena = memory.planned_arena;
  summary.measured_arena = memory.measured_arena;
  summary.arena_values = memory.arena_values;
  summary.predicted_process = memory.predicted_process;
  summary.measured_process = memory.measured_process;
  summary.limit = memory.limit;
  summary.passed_limit = memory.passed_limit;
  for (const report::MemoryPart& part : session.summary().accounted) {
    summary.accounted.emplace_back(part.name, part.bytes);
  }
  summary.block_set = session.summary().block_set;
  summary.kernel_set = session.summary().kernel_set;
}

namespace {

void say_limit_passed(Bytes measured, Bytes limit) {
  std::fprintf(
      stderr,
      "plimsoll: the process has taken %s (%lld B), above its limit of %s (%lld B). This is "
      "a fault of Plimsoll: the run is finished and ends with exit code %d. Please report "
      "it with the model and this line.\n",
      to_string(measured).c_str(), static_cast<long long>(measured.count()),
      to_string(limit).c_str(), static_cast<long long>(limit.count()), kPassedLimit);
}

}  // namespace

train::SessionOptions session_options(const ModelOptions& options,
                                      const std::string& spill_directory) {
  train::SessionOptions session;
  session.spill = spill_use(options);
  session.spill_directory = spill_directory;
  session.spill_limit = spill_limit(options, spill_directory);
  session.batch = options.batch;
  session.memory = memory_limit(options);
  session.threads = options.threads;
  session.backend = options.backend;
  session.seed = options.seed;
  session.plan_steps = plan_steps(options);
  session.plan_extends = !options.plan_time;
  session.max_slowdown = max_slowdown(options);
  session.without = options.without;
  session.times = planning::named_times(options.times, options.tune);
  session.saved_plan = saved_plan(options);
  session.whole_process = true;
  session.on_passed_limit = say_limit_passed;
  return session;
}

}  // namespace plimsoll::cli
