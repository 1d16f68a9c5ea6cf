#include "bench/measure.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/cpu.h"
#include "base/error.h"
#include "base/suggest.h"
#include "bench/random_data.h"
#include "bench/workloads.h"
#include "graph/program.h"
#include "layers/training/batch_norm_groups.h"
#include "run/model.h"
#include "run/open_data.h"
#include "run/settings.h"
#include "train/session.h"

namespace plimsoll::bench {
namespace {

// What is measured: a built-in workload, or a user's model.
struct Subject {
  Workload workload;
  std::unique_ptr<TensorSource> weights;  // null: initial ones
};

bool is_model_file(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".keras") ||
         name.ends_with(".json") || name.ends_with(".h5");
}

Subject find_subject(const Request& request, run::Listener& listener) {
  const std::string& name = request.name;
  if (!is_model_file(name)) {
    Subject subject{make_workload(name), nullptr};
    subject.workload.compile.precision = layers::parse_precision(request.settings.precision);
    const run::ModelRequest& asked = request.model;
    if (!asked.batch_norm.empty()) {
      subject.workload.compile.batch_norm_group = layers::parse_batch_norm(asked.batch_norm);
    }
    if (!asked.optimizer.empty()) {
      subject.workload.compile.optimizer = layers::parse_optimizer(asked.optimizer);
    }
    if (request.batch > 0) subject.workload.batch = request.batch;
    return subject;
  }
  run::ModelRequest file = request.model;
  file.path = name;
  run::LoadedModel loaded = run::load(file, request.settings,
                                      {.optimizer = request.program == Program::kTrain,
                                       .loss = request.program != Program::kPredict},
                                      listener);
  Workload workload{std::filesystem::path(name).filename().string(), loaded.file.model,
                    loaded.compile};
  if (request.batch > 0) workload.batch = request.batch;
  return {std::move(workload), std::move(loaded.file.weights)};
}

layers::CompileOptions compile_for(Program program, const Workload& workload) {
  layers::CompileOptions compile;
  compile.precision = workload.compile.precision;
  if (program == Program::kPredict) return compile;
  compile = workload.compile;
  if (program == Program::kEvaluate) compile.optimizer = layers::Config();
  return compile;
}

layers::BatchSizes sizes_for(Program program, int64_t batch) {
  layers::BatchSizes sizes;
  (program == Program::kTrain      ? sizes.train
   : program == Program::kEvaluate ? sizes.evaluate
                                   : sizes.predict) = batch;
  return sizes;
}

// A file's samples where one is named, else random ones for so many whole batches.
data::Dataset samples_for(const Request& request, const Subject& subject, int64_t batches,
                          run::Listener& listener) {
  const Workload& workload = subject.workload;
  const layers::CompileOptions compile = compile_for(request.program, workload);
  if (!request.data.data.empty()) {
    data::Dataset dataset =
        *run::open_data({request.data, nullptr}, workload.model, compile, true, listener);
    if (request.program == Program::kPredict) dataset.targets.clear();
    dataset.weights.clear();
    return dataset;
  }
  const layers::BuiltPrograms built =
      layers::build_programs(workload.model, compile, sizes_for(request.program, workload.batch));
  return make_random_data(
      request.program == Program::kPredict ? built.predict_inputs : built.train_inputs,
      workload.stored, batches * workload.batch);
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

train::SessionOptions session_options(const Request& request, int64_t batch) {
  run::Settings settings = request.settings;
  settings.batch = batch;
  settings.profile = request.profile;
  return run::session_options(settings);
}

report::Speed describe(const Request& request, const Workload& workload,
                       const train::Session& session, std::vector<double> seconds) {
  const CpuInfo cpu = read_cpu_info();
  const train::MemoryReport memory = session.memory();
  std::ranges::sort(seconds);
  report::Speed speed;
  speed.name = workload.name;
  speed.program = to_string(request.program);
  speed.precision = session.summary().precision;
  speed.isa = cpu.isa;
  speed.threads = session.summary().threads;
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

std::vector<report::Operand> operands_of(const std::vector<graph::ValueType>& types,
                                         int64_t batch) {
  std::vector<report::Operand> operands;
  operands.reserve(types.size());
  for (const graph::ValueType& type : types) {
    operands.push_back({std::string(to_string(type.dtype)), type.shape.at(batch)});
  }
  return operands;
}

// What each kernel was asked for, so that another program can be asked for the same.
void add_calls(report::Profile& profile, const graph::ProgramSet& set) {
  for (report::ProgramProfile& measured : profile.programs) {
    const graph::Program* program = graph::find_program(set, measured.program);
    PLIMSOLL_CHECK(program != nullptr, "a program ran that is none of the session's");
    for (report::ProfileRow& row : measured.rows) {
      if (row.kind != "kernel") continue;
      const graph::NodeId node = graph::find_node(program->graph, row.what);
      PLIMSOLL_CHECK(node.valid(), "a kernel ran that is no node of its program");
      row.call =
          report::KernelCall{operands_of(graph::input_types(program->graph, node), program->batch),
                             operands_of(graph::output_types(program->graph, node), program->batch),
                             program->graph.node(node).attributes};
    }
  }
}

}  // namespace

std::string_view to_string(Program program) {
  switch (program) {
    case Program::kTrain:
      return "train";
    case Program::kEvaluate:
      return "evaluate";
    case Program::kPredict:
      break;
  }
  return "predict";
}

Program parse_program(const std::string& option, const std::string& text) {
  std::vector<std::string> known;
  for (const Program program : {Program::kTrain, Program::kEvaluate, Program::kPredict}) {
    known.emplace_back(to_string(program));
    if (text == known.back()) return program;
  }
  throw Error(ErrorKind::kConfig, option + ": expected train, evaluate or predict, received \"" +
                                      text + "\"." + did_you_mean(text, known));
}

report::Speed measure(const Request& request, run::Listener& listener) {
  constexpr Bytes kHeldBeside = 2_MiB;  // times, and the model that programs were made of twice
  const Subject subject = find_subject(request, listener);
  const Workload& workload = subject.workload;
  const int64_t steps = request.steps > 0 ? request.steps : workload.steps;
  data::Dataset dataset = samples_for(request, subject, steps, listener);
  const int64_t row_count = dataset.row_count();
  planning::RowCounts rows;
  (request.program == Program::kTrain      ? rows.train
   : request.program == Program::kEvaluate ? rows.evaluate
                                           : rows.predict) = row_count;
  train::Session session(workload.model, compile_for(request.program, workload),
                         session_options(request, workload.batch), rows,
                         {dataset.resident_bytes() + kHeldBeside,
                          dataset.wants_ahead(workload.batch, data::Shuffle::kNone)});
  session.initialize(subject.weights.get());
  const int64_t batches = (row_count + workload.batch - 1) / workload.batch;
  std::vector<double> seconds =
      request.program == Program::kTrain
          ? train_steps(session, dataset, steps)
          : pass_steps(session, dataset, request.program == Program::kEvaluate, batches);
  report::Speed speed = describe(request, workload, session, std::move(seconds));
  if (request.profile) speed.profile = session.profile();
  if (request.profile && request.calls) add_calls(*speed.profile, session.programs().set);
  return speed;
}

}  // namespace plimsoll::bench
