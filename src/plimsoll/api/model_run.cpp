// Model::Impl: where the state is, and the sessions that use it.

#include <cstdio>

#include "api/model_impl.h"
#include "base/error.h"
#include "base/log.h"
#include "data/dataset_stages.h"
#include "formats/model_file.h"
#include "layers/training/batch_norm_groups.h"
#include "layers/training/optimizers.h"
#include "planning/planning.h"
#include "report/plan_summary.h"
#include "train/checkpointer.h"

namespace plimsoll {
namespace {

train::SessionOptions session_options(const RunOptions& options) {
  train::SessionOptions session;
  session.batch = options.batch;
  session.memory = options.memory;
  session.threads = options.threads;
  session.backend = options.backend;
  session.seed = options.seed;
  session.times = planning::named_times(options.times, options.tune);
  return session;
}

void check_run(int64_t batch, int64_t rows) {
  if (batch < 1) {
    throw Error(ErrorKind::kConfig,
                "[batch] expected 1 or more, received " + std::to_string(batch) + ".");
  }
  if (rows < 1) throw Error(ErrorKind::kData, "[dataset] expected samples, received none.");
}

PlanAnswer::Answer answer_of(report::Answer answer) {
  switch (answer) {
    case report::Answer::kFits:
      return PlanAnswer::Answer::kFits;
    case report::Answer::kImpossible:
      return PlanAnswer::Answer::kImpossible;
    case report::Answer::kNotFound:
      break;
  }
  return PlanAnswer::Answer::kNotFound;
}

PlanAnswer to_answer(const report::PlanSummary& summary) {
  PlanAnswer answer;
  answer.answer = answer_of(summary.answer);
  answer.reason = summary.reason;
  answer.planned_arena = summary.planned_arena;
  answer.predicted_process = summary.predicted_process;
  answer.seconds_per_step = summary.seconds_per_step;
  answer.strategy = summary.strategy;
  answer.block_set = summary.block_set;
  answer.lower_bound = summary.lower_bound;
  answer.smallest_feasible = summary.smallest_feasible;
  answer.smallest_same_bits = summary.smallest_same_bits;
  answer.free_plan = summary.free_plan;
  answer.largest_feasible_batch = summary.largest_feasible_batch;
  for (const plan::FrontierPoint& point : summary.frontier) {
    answer.frontier.push_back({point.arena_bytes, point.seconds, point.what});
  }
  for (const plan::Culprit& culprit : summary.culprits) {
    answer.culprits.push_back({culprit.layer, culprit.bytes, culprit.what});
  }
  answer.text = report::to_text(summary, !summary.limit);
  answer.json = report::to_json(summary);
  return answer;
}

MemoryUse to_memory(const train::MemoryReport& report) {
  return {report.planned_arena,    report.measured_arena, report.predicted_process,
          report.measured_process, report.limit,          report.passed_limit};
}

EpochReport to_epoch(const train::EpochResult& result) {
  return {result.epoch, result.metrics, result.seconds};
}

class NoTensors final : public TensorSource {
 public:
  std::span<const TensorInfo> tensors() const override { return {}; }
  void read(size_t, int64_t, std::span<std::byte>) override {}
};

train::FitOptions fit_options(const FitOptions& options) {
  train::FitOptions fit;
  fit.epochs = options.epochs;
  fit.steps = options.steps;
  fit.shuffle = options.shuffle ? data::Shuffle::kFull : data::Shuffle::kNone;
  fit.progress = options.progress ? stderr : nullptr;
  fit.on_step = options.on_step;
  if (options.on_epoch) {
    fit.on_epoch = [&options](const train::EpochResult& result) {
      options.on_epoch(to_epoch(result));
    };
  }
  return fit;
}

// Null where no folder is named.
std::unique_ptr<train::Checkpointer> open_checkpoints(const FitOptions& options) {
  if (options.checkpoint.empty()) {
    if (!options.resume && options.checkpoint_every.empty()) return nullptr;
    throw Error(ErrorKind::kConfig,
                "resume and checkpoint_every: expected a folder in checkpoint beside them.");
  }
  train::CheckpointOptions choices;
  choices.folder = options.checkpoint;
  choices.keep = options.checkpoint_keep;
  choices.resume = options.resume;
  if (!options.checkpoint_every.empty()) {
    choices.schedule = train::parse_schedule(options.checkpoint_every);
  }
  return std::make_unique<train::Checkpointer>(choices, [&options](const std::string& text) {
    if (options.on_notice) options.on_notice(text);
  });
}

}  // namespace

Model::Impl::Impl(layers::Model model, std::optional<layers::CompileOptions> compile,
                  std::unique_ptr<TensorSource> weights)
    : model_(std::move(model)), compile_(std::move(compile)) {
  store_.adopt(std::move(weights));
}

const layers::CompileOptions& Model::Impl::need_compile(const char* what) const {
  if (compile_ && !(compile_->losses.empty() && compile_->unread_loss.empty())) return *compile_;
  throw Error(ErrorKind::kConfig, "[" + model_.name() + "] " + what +
                                      ": expected a model that is compiled, received one without "
                                      "a loss. Call compile(optimizer, loss) first.");
}

void Model::Impl::set_trainable(const std::string& layer, bool trainable) {
  park();
  model_.set_trainable(layer, trainable);
}

void Model::Impl::compile(layers::CompileOptions compile) {
  layers::BatchSizes one;
  one.train = 1;
  layers::build_programs(model_, compile, one);  // refuses what does not fit the outputs
  park();
  store_.drop_optimizer();
  if (compile_) compile.batch_norm_group = compile_->batch_norm_group;
  compile_ = std::move(compile);
}

void Model::Impl::set_batch_norm(const std::string& statistics) {
  const int64_t group = layers::parse_batch_norm(statistics);
  need_compile("set_batch_norm");
  park();
  compile_->batch_norm_group = group;
}

std::string Model::Impl::batch_norm() const {
  return layers::batch_norm_text(compile_ ? compile_->batch_norm_group : 0);
}

PlanAnswer Model::Impl::plan(const RunOptions& options) const {
  check_run(options.batch, 1);
  planning::PlanRequest request;
  request.limit = options.memory;
  request.backend = options.backend;
  request.threads = options.threads;
  request.seed = options.seed;
  request.times = planning::named_times(options.times, options.tune);
  layers::BatchSizes batches;
  batches.train = options.batch;
  const layers::CompileOptions& compile = need_compile("plan");
  report::PlanSummary summary = planning::plan_run(model_, compile, batches, request).summary;
  summary.model = model_.name();
  summary.batch = options.batch;
  summary.parameter_count = model_.parameters().total();
  if (!compile.optimizer.is_null()) {
    summary.optimizer = layers::read_optimizer(compile.optimizer).class_name;
  }
  return to_answer(summary);
}

void Model::Impl::park() {
  if (session_ == nullptr) return;
  store_.capture(*session_->state());
  session_state_.reset();
  session_.reset();
}

void Model::Impl::start_fit(const FitKey& key) {
  if (session_ != nullptr && key == key_) return;
  park();
  layers::CompileOptions compile = need_compile("fit");
  compile.sample_weights = key.sample_weights;
  compile.weight_shapes = key.weight_shapes;
  compile.accumulates = key.accumulates;
  RunOptions options;
  options.batch = key.batch;
  options.memory = key.memory;
  options.threads = key.threads;
  options.backend = key.backend;
  options.times = key.times;
  options.tune = key.tune;
  options.seed = key.seed;
  planning::RowCounts rows;
  rows.train = key.train_rows;
  rows.evaluate = key.evaluate_rows;
  session_ = make_session(compile, options, rows, {key.data, key.data_ahead, key.data_opening});
  key_ = key;
}

train::Session& Model::Impl::start_steps(const TrainerOptions& options, Bytes data) {
  FitKey key = FitKey::of(options);
  key.train_rows = key.evaluate_rows = options.batch + options.short_batch;
  key.data = data;
  key.sample_weights = options.sample_weights;
  key.accumulates = true;
  start_fit(key);
  return *session_;
}

History Model::Impl::fit(data::Dataset& dataset, data::Dataset* validation,
                         const FitOptions& options) {
  need_compile("fit");
  check_run(options.batch, dataset.row_count());
  FitKey key = FitKey::of(options);
  key.train_rows = dataset.row_count();
  key.data = dataset.resident_bytes();
  key.data_ahead = dataset.wants_ahead(options.batch, fit_options(options).shuffle);
  key.data_opening = train::opening_of(dataset, validation);
  key.sample_weights = !dataset.weights.empty();
  key.weight_shapes = data::weight_shapes(dataset);
  if (validation != nullptr) {
    key.evaluate_rows = validation->row_count();
    key.data += validation->resident_bytes();
  }
  const std::unique_ptr<train::Checkpointer> checkpoints = open_checkpoints(options);
  if (checkpoints && checkpoints->found() != nullptr) key.seed = checkpoints->found()->seed;
  start_fit(key);
  train::FitOptions how = fit_options(options);
  if (checkpoints) {
    how.start = checkpoints->restore(*session_, key.train_rows, how.shuffle);
    how.on_position = [&](const train::Position& position, bool epoch_ended) {
      checkpoints->pass(*session_, position, epoch_ended);
    };
  }
  const train::History trained = session_->fit(dataset, validation, how);
  if (checkpoints) checkpoints->finish(*session_, trained.position);
  History history;
  for (const train::EpochResult& epoch : trained.epochs) history.epochs.push_back(to_epoch(epoch));
  history.steps = trained.steps;
  history.seconds_per_step = trained.seconds_per_step;
  history.memory = to_memory(session_->memory());
  return history;
}

namespace {

void say_left_out_metrics(const layers::Model& model, const layers::CompileOptions& compile) {
  for (const std::string& line : layers::left_out_metrics(model, compile)) {
    log(LogLevel::kWarning, "[" + model.name() + "] " + line);
  }
}

}  // namespace

std::unique_ptr<train::Session> Model::Impl::make_session(const layers::CompileOptions& compile,
                                                          const RunOptions& options,
                                                          const planning::RowCounts& rows,
                                                          const train::DataMemory& data) {
  if (!compile.losses.empty()) say_left_out_metrics(model_, compile);
  auto session =
      std::make_unique<train::Session>(model_, compile, session_options(options), rows, data);
  session->initialize(store_.source());
  return session;
}

void Model::Impl::keep_initial(train::Session& session) {
  if (store_.source() == nullptr) store_.capture(*session.state());
}

MetricValues Model::Impl::evaluate(data::Dataset& dataset, const RunOptions& options) {
  layers::CompileOptions compile = need_compile("evaluate");
  check_run(options.batch, dataset.row_count());
  park();
  compile.optimizer = layers::Config();
  compile.sample_weights = !dataset.weights.empty();
  compile.weight_shapes = data::weight_shapes(dataset);
  planning::RowCounts rows;
  rows.evaluate = dataset.row_count();
  const auto session = make_session(
      compile, options, rows,
      {dataset.resident_bytes(), dataset.wants_ahead(options.batch, data::Shuffle::kNone),
       train::opening_of(dataset)});
  keep_initial(*session);
  return session->evaluate(dataset);
}

void Model::Impl::predict(data::Dataset& dataset, const RunOptions& options, OutputSink& sink,
                          Bytes held) {
  check_run(options.batch, dataset.row_count());
  park();
  planning::RowCounts rows;
  rows.predict = dataset.row_count();
  const auto session = make_session(
      {}, options, rows,
      {dataset.resident_bytes() + held, dataset.wants_ahead(options.batch, data::Shuffle::kNone),
       train::opening_of(dataset)});
  keep_initial(*session);
  session->predict(dataset, sink);
}

void Model::Impl::ensure_state() {
  if (session_ != nullptr || store_.source() != nullptr) return;
  RunOptions options;
  options.batch = 1;
  planning::RowCounts rows;
  rows.predict = 1;
  const auto session = make_session({}, options, rows, {});
  keep_initial(*session);
}

TensorSource& Model::Impl::state() {
  ensure_state();
  if (session_ == nullptr) return *store_.source();
  session_state_ = session_->state();
  return *session_state_;
}

void Model::Impl::set_weight(const std::string& name, std::span<const std::byte> bytes) {
  ensure_state();
  park();
  store_.write(name, bytes);
}

void Model::Impl::save(const std::string& path) {
  formats::check_output_name(path);
  const layers::CompileOptions* compile = compile_ ? &*compile_ : nullptr;
  NoTensors none;  // a structure needs no weights
  TensorSource& tensors = path.ends_with(".json") ? static_cast<TensorSource&>(none) : state();
  formats::save_model(path, model_, compile, tensors);
}

}  // namespace plimsoll
