#include "run/run.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/accounted.h"
#include "base/error.h"
#include "base/format.h"
#include "base/spill_folder.h"
#include "base/threads/fork.h"
#include "data/any_source.h"
#include "data/dataset_stages.h"
#include "formats/model_file.h"
#include "layers/training/batch_norm_groups.h"
#include "planning/sharing.h"
#include "run/equal_ranks.h"
#include "run/fitting.h"
#include "run/settings.h"

namespace plimsoll::run {
namespace {

layers::CompileOptions with_precision(layers::CompileOptions compile, const Settings& settings) {
  if (!settings.precision.empty()) {
    compile.precision = layers::parse_precision(settings.precision);
  }
  return compile;
}

planning::DataMemory memory_of(const data::Dataset& dataset, int64_t batch) {
  return {dataset.resident_bytes(), dataset.wants_ahead(batch, data::Shuffle::kNone),
          train::opening_of(dataset)};
}

// What data would take that nobody has named yet. In somebody else's process they are its arrays.
planning::DataMemory any_data(const layers::Model& model, const layers::CompileOptions& compile,
                              bool guest) {
  data::DatasetOptions set;
  name_ports(model, compile, set);
  const data::AnySource source =
      guest ? data::largest_array_source(set.inputs, set.outputs)
            : data::largest_usual_source(set.inputs, set.outputs, set.threads);
  return {source.held, Bytes(), {source.opening, source.opened}};
}

DataRequest opened_by(Ranks* ranks, DataRequest data) {
  data.paths.set.ranks = ranks;
  return data;
}

std::vector<Bytes> output_row_bytes(const layers::Model& model) {
  std::vector<Bytes> bytes;
  for (const layers::ModelPort& port : model.outputs()) {
    bytes.push_back(tensor_bytes(port.type.dtype, port.type.shape, 1));
  }
  return bytes;
}

}  // namespace

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

// A call that runs sessions: one at a time, which its listener may not break into by another.
class Run::Busy {
 public:
  Busy(Run& run, Listener& listener, const char* what) : run_(run) {
    run_.refuse_while_running(what);
    if (run_.busy_.exchange(true)) run_.refuse_while_running(what);  // by another thread, just now
    run_.listener_ = &listener;
  }
  ~Busy() {
    run_.listener_ = nullptr;
    run_.busy_ = false;
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  Run& run_;
};

Run::Run(LoadedModel loaded)
    : model_(std::move(loaded.file.model)),
      compile_(std::move(loaded.compile)),
      left_out_metrics_(std::move(loaded.left_out_metrics)),
      once_(true) {
  store_.adopt(std::move(loaded.file.weights));
}

Run::Run(layers::Model model, std::optional<layers::CompileOptions> compile,
         std::unique_ptr<TensorSource> weights)
    : model_(std::move(model)), compile_(std::move(compile)) {
  store_.adopt(std::move(weights));
  if (compile_ && !compile_->losses.empty()) {
    left_out_metrics_ = layers::left_out_metrics(model_, *compile_);
  }
}

Run::~Run() = default;

const layers::CompileOptions& Run::need_compile(const char* what) const {
  if (compile_ && !(compile_->losses.empty() && compile_->unread_loss.empty())) return *compile_;
  throw Error(ErrorKind::kConfig, "[" + model_.name() + "] " + what +
                                      ": expected a model that is compiled, received one without "
                                      "a loss. Call compile(optimizer, loss) first.");
}

void Run::refuse_while_running(const char* what) const {
  refuse_in_child(what);
  if (!busy_) return;
  throw Error(ErrorKind::kConfig, "[" + model_.name() + "] " + what +
                                      ": expected a model that is not being run, received one in "
                                      "the middle of another call. Call it afterwards.");
}

void Run::refuse_no_rows(int64_t batch, int64_t rows) const {
  if (batch < 1) {
    throw Error(ErrorKind::kConfig, fmt::format("[batch] expected 1 or more, received {}.", batch));
  }
  if (rows < 1) throw Error(ErrorKind::kData, "[dataset] expected samples, received none.");
}

void Run::set_trainable(const std::string& layer, bool trainable) {
  refuse_while_running("set_trainable");
  park();
  model_.set_trainable(layer, trainable);
}

void Run::compile(layers::CompileOptions compile) {
  refuse_while_running("compile");
  layers::BatchSizes one;
  one.train = 1;
  layers::build_programs(model_, compile, one);  // refuses what does not fit the outputs
  park();
  store_.drop_optimizer();
  if (compile_) compile.batch_norm_group = compile_->batch_norm_group;
  compile_ = std::move(compile);
  left_out_metrics_ = layers::left_out_metrics(model_, *compile_);
}

void Run::set_batch_norm(const std::string& statistics) {
  const int64_t group = layers::parse_batch_norm(statistics);
  refuse_while_running("set_batch_norm");
  need_compile("set_batch_norm");
  park();
  compile_->batch_norm_group = group;
}

std::string Run::batch_norm() const {
  return layers::batch_norm_text(compile_ ? compile_->batch_norm_group : 0);
}

planning::PlannedRun Run::plan(const FitRequest& asked, const std::string& why,
                               Listener& listener) const {
  refuse_in_child("plan");
  const Settings& settings = asked.settings;
  refuse_no_rows(settings.batch, 1);
  layers::CompileOptions compile = with_precision(need_compile("plan"), settings);
  planning::PlanRequest request = plan_request(settings);
  request.why = why;
  if (settings.rank_count > 1) request.ranks.count = settings.rank_count;
  request.network = settings.network;
  request.tell = [&](const std::string& what) { listener.planning(what); };
  planning::RowCounts rows;
  rows.train = settings.batch;
  std::string description;
  if (!asked.data.empty()) {
    const OpenedData data = open_training(
        {asked.data, asked.validation, asked.validation_split, asked.class_weights, settings.seed},
        model_, compile, listener);
    rows = data.rows;
    request.data = data.memory;
    request.data.ahead = data.train->wants_ahead(settings.batch, data.train->usual_shuffle());
    description = data::describe(*data.train);
  } else {
    request.any_data = true;
    request.data = any_data(model_, compile, settings.given > Bytes());
  }
  const layers::BatchSizes batches = planning::batch_sizes(settings.batch, rows);
  layers::check_stateful(model_, batches);
  listener.planning(planning::searching(settings.memory));
  planning::PlannedRun planned =
      planning::plan_shared_run(model_, compile, batches, request, settings.shard, nullptr);
  listener.planned();
  planned.summary.data = description;
  return planned;
}

std::unique_ptr<train::Session> Run::make_session(const layers::CompileOptions& compile,
                                                  const SessionKey& key, Listener& listener) {
  train::SessionOptions options = session_options(key.settings);
  options.on_passed_limit = [this](Bytes measured, Bytes limit) {
    if (listener_ != nullptr) listener_->passed_limit(measured, limit);
  };
  options.between_steps = [this] {
    if (listener_ != nullptr) listener_->between_steps();
  };
  options.plan.tell = [&](const std::string& what) { listener.planning(what); };
  const layers::CompileOptions precise = with_precision(compile, key.settings);
  if (!once_ && !told_precision_) {
    const std::string note = layers::precision_note(model_, precise.precision);
    if (!note.empty()) listener.notice("[" + model_.name() + "] " + note);
    told_precision_ = true;
  }
  if (!once_ && !compile.losses.empty()) {
    for (const std::string& line : left_out_metrics_) {
      listener.notice("[" + model_.name() + "] " + line);
    }
  }
  listener.planning(planning::searching(key.settings.memory));
  auto session = std::make_unique<train::Session>(model_, precise, options, key.rows, key.data);
  listener.planned();
  return session;
}

void Run::close() {
  session_state_.reset();
  session_.reset();
}

void Run::park(bool with_metrics, const std::string& folder) {
  if (session_ == nullptr) return;
  store_.capture(*session_->state(), with_metrics, folder);
  close();
}

std::unique_ptr<train::Session> Run::prepare(const SessionKey& key, Listener& listener) {
  if (session_ != nullptr && key == key_) return nullptr;
  park();
  layers::CompileOptions compile = need_compile("fit");
  compile.sample_weights = key.sample_weights;
  compile.weight_shapes = key.weight_shapes;
  compile.target_shapes = key.target_shapes;
  compile.accumulates = key.accumulates;
  return make_session(compile, key, listener);
}

void Run::take_over(std::unique_ptr<train::Session> session, const SessionKey& key) {
  session_ = std::move(session);
  key_ = key;
}

void Run::keep_initial(train::Session& session) {
  if (!once_ && store_.source() == nullptr) store_.capture(*session.state());
}

FitResult Run::fit(const FitRequest& request, Listener& listener) {
  const Busy busy(*this, listener, "fit");
  // What was asked of this run is no matter of the next one.
  struct Answered {
    Run& run;
    ~Answered() {
      run.stop_ = false;
      run.asked_limit_ = 0;
    }
  } const answered{*this};
  need_compile("fit");
  refuse_no_rows(request.settings.batch, 1);
  return Fitting(*this, request, listener).run();
}

Evaluation Run::evaluate(const EvaluateRequest& request, Listener& listener) {
  const Busy busy(*this, listener, "evaluate");
  const Settings& settings = request.settings;
  layers::CompileOptions compile = need_compile("evaluate");
  const std::shared_ptr<data::Dataset> dataset =
      open_data(opened_by(settings.ranks, request.data), model_, compile, true, listener);
  refuse_no_rows(settings.batch, dataset->row_count());
  if (request.data.opened == nullptr) {
    note_labels(*dataset, compile, model_, listener);
    note_own_scale(*dataset, request.data.paths, listener);
  }
  park();
  compile.optimizer = layers::Config();
  describe_data(*dataset, compile);
  SessionKey key;
  key.settings = settings;
  key.rows.evaluate = dataset->row_count();
  key.data = memory_of(*dataset, settings.batch);
  const auto session = make_session(compile, key, listener);
  session->initialize(store_.source());
  if (settings.ranks != nullptr) {
    SharedRun shared;
    shared.head = session->describe(0, data::Shuffle::kNone);
    shared.programs = session->fingerprint();
    shared.evaluated = key.rows.evaluate;
    expect_equal_runs(*settings.ranks, shared);
    expect_equal_state(*settings.ranks, *session, nullptr, 0);
  }
  keep_initial(*session);
  Evaluation result;
  result.metrics = session->evaluate(*dataset);
  result.summary.metrics = result.metrics;
  result.summary.steps = (key.rows.evaluate + settings.batch - 1) / settings.batch;
  fill_memory(*session, result.summary);
  result.summary.left_out_metrics = left_out_metrics_;
  return result;
}

train::MemoryReport Run::predict(const PredictRequest& request, const OpenSink& open, Bytes held,
                                 Listener& listener) {
  const Busy busy(*this, listener, "predict");
  const Settings& settings = request.settings;
  const std::shared_ptr<data::Dataset> dataset =
      open_data(opened_by(settings.ranks, request.data), model_,
                compile_.value_or(layers::CompileOptions{}), false, listener);
  dataset->targets.clear();
  dataset->weights.clear();
  if (request.data.opened == nullptr) note_own_scale(*dataset, request.data.paths, listener);
  refuse_no_rows(settings.batch, dataset->row_count());
  park();
  SessionKey key;
  key.settings = settings;
  key.settings.ranks = nullptr;  // each computes whole batches
  key.rows.predict = dataset->row_count();
  key.data = memory_of(*dataset, settings.batch);
  key.data.held += held * key.rows.predict;
  const std::vector<Bytes> row_bytes = output_row_bytes(model_);
  if (settings.ranks != nullptr) key.data.held += train::PredictionTurns::piece_bytes(row_bytes);
  layers::CompileOptions compile;
  if (compile_) compile.precision = compile_->precision;
  const auto session = make_session(compile, key, listener);
  session->initialize(store_.source());
  keep_initial(*session);
  std::optional<train::PredictionTurns> turns;
  if (settings.ranks != nullptr) {
    SharedRun shared;
    shared.head = session->describe(key.rows.predict, data::Shuffle::kNone);
    shared.programs = session->fingerprint();
    expect_equal_runs(*settings.ranks, shared);
    expect_equal_state(*settings.ranks, *session, nullptr, 0);
    const std::string layer = model_.stateful_layer();
    if (!layer.empty()) {
      listener.notice("[" + layer + "] goes on from batch to batch: the first rank predicts alone");
    }
    turns.emplace(*settings.ranks,
                  train::PredictionTurns::Options{
                      .row_bytes = row_bytes,
                      .batches = (key.rows.predict + settings.batch - 1) / settings.batch,
                      .batch = settings.batch,
                      .in_order = !layer.empty(),
                      .spill_directory = settings.spill_directory});
  }
  session->predict(*dataset, open(key.rows.predict), turns ? &*turns : nullptr);
  return session->memory();
}

std::shared_ptr<data::Dataset> Run::open(const DataRequest& request, Listener& listener) const {
  refuse_in_child("open");
  return open_data(request, model_, need_compile("open"), true, listener);
}

Run::SessionKey Run::key_of(const StepsRequest& request) const {
  SessionKey key;
  key.settings = request.settings;
  key.rows.train = request.settings.batch + request.short_batch;
  if (request.evaluates) key.rows.evaluate = key.rows.train;
  key.data.held = request.data;
  key.sample_weights = request.sample_weights;
  key.weight_shapes = request.weight_shapes;
  if (compile_) key.target_shapes = sequence_shapes(*compile_, request.target_shapes);
  key.accumulates = true;
  return key;
}

train::Session& Run::steps(const StepsRequest& request) {
  refuse_while_running("steps");
  const SessionKey key = key_of(request);
  Listener nobody;
  if (auto session = prepare(key, nobody)) {
    session->initialize(store_.source());
    take_over(std::move(session), key);
  }
  return *session_;
}

void Run::steps_on(const StepsRequest& request, TensorSource& state, bool go_on, Listener& listener,
                   const std::function<void(train::Session&)>& work) {
  const Busy busy(*this, listener, "steps");
  const SessionKey key = key_of(request);
  if (session_ == nullptr || key != key_) {
    if (!go_on) {
      close();
      store_.adopt(nullptr);
    }
    auto session = prepare(key, listener);
    listener.begin(session->summary());
    session->initialize(go_on ? store_.source() : &state);
    take_over(std::move(session), key);
  }
  session_->take_changed(state);
  work(*session_);
}

double Run::step(const StepsRequest& request, data::Dataset& dataset, bool train,
                 Listener& listener) {
  const Busy busy(*this, listener, train ? "a step of training" : "a step of evaluation");
  SessionKey key;
  key.settings = request.settings;
  key.rows.train = key.rows.evaluate = request.settings.batch + request.short_batch;
  key.data.held = request.data;
  key.sample_weights = request.sample_weights;
  key.weight_shapes = data::weight_shapes(dataset);
  if (compile_) key.target_shapes = sequence_shapes(*compile_, data::target_shapes(dataset));
  if (session_ == nullptr || key != key_) {
    // Another size of batch in the middle of an epoch: its metrics and draws go on.
    const int64_t steps = session_ == nullptr ? request.seen_steps : session_->steps();
    park(true);
    auto session = prepare(key, listener);
    listener.begin(session->summary());
    session->initialize(store_.source());
    session->set_steps(steps);
    take_over(std::move(session), key);
  }
  const double loss =
      session_->run_rows(train ? "train" : "evaluate", dataset, 0, dataset.row_count());
  if (train) session_->set_steps(session_->steps() + 1);
  return loss;
}

void Run::keep(const KeptRequest& request, TensorSource& state, Listener& listener,
               const std::function<void(train::Session&)>& work) {
  using Kind = KeptRequest::Kind;
  const bool predicts = request.kind == Kind::kPredict;
  const Busy busy(*this, listener,
                  predicts                       ? "predict"
                  : request.kind == Kind::kTrain ? "train"
                                                 : "evaluate");
  SessionKey key;
  key.settings = request.settings;
  (predicts                       ? key.rows.predict
   : request.kind == Kind::kTrain ? key.rows.train
                                  : key.rows.evaluate) =
      request.settings.batch + request.short_batch;
  key.data.held = request.data;
  key.sample_weights = request.sample_weights;
  key.weight_shapes = request.weight_shapes;
  if (compile_) key.target_shapes = sequence_shapes(*compile_, request.target_shapes);
  try {
    if (session_ != nullptr && key == key_) {
      session_->take_changed(state);
    } else {
      PLIMSOLL_CHECK(!request.has_state, "the session that has the state is another one");
      std::vector<std::byte> counted;
      if (session_ != nullptr && request.go_on_counting) counted = session_->save_metrics();
      close();
      layers::CompileOptions compile;
      if (predicts) {
        if (compile_) compile.precision = compile_->precision;
      } else {
        compile = need_compile("on_batch");
        compile.sample_weights = key.sample_weights;
        compile.weight_shapes = key.weight_shapes;
        compile.target_shapes = key.target_shapes;
        if (request.kind == Kind::kEvaluate) compile.optimizer = layers::Config();
      }
      auto session = make_session(compile, key, listener);
      listener.begin(session->summary());
      session->initialize(&state);
      if (!counted.empty()) session->restore_metrics(counted);
      take_over(std::move(session), key);
    }
    if (!predicts && !request.go_on_counting) session_->reset_metrics();
    work(*session_);
  } catch (...) {
    if (!request.has_state) close();
    throw;
  }
}

void Run::reset_metrics() { need_session().reset_metrics(); }

void Run::adopt(std::unique_ptr<TensorSource> state) {
  if (session_ != nullptr) {
    session_->take_state(*state);
  } else {
    store_.adopt(std::move(state));
  }
}

train::Session& Run::need_session() const {
  if (session_ != nullptr) return *session_;
  throw Error(ErrorKind::kConfig,
              "[" + model_.name() + "] expected a model that is being trained, received none.");
}

train::Metrics Run::metrics() { return need_session().read_metrics(); }
std::vector<std::string> Run::array_metrics() const {
  std::vector<std::string> names;
  for (const layers::MetricState& metric : need_session().programs().metrics) {
    if (layers::tells_array(metric.result)) names.push_back(metric.name);
  }
  return names;
}

train::MemoryReport Run::memory() { return need_session().memory(); }

void Run::set_learning_rate(double rate) {
  if (session_ != nullptr && session_->learning_rate()) session_->set_learning_rate(rate);
}

void Run::ensure_state() {
  if (session_ != nullptr || store_.source() != nullptr) return;
  SessionKey key;
  key.settings.batch = 1;
  key.rows.predict = 1;
  Listener nobody;
  const auto session = make_session({}, key, nobody);
  session->initialize(nullptr);
  store_.capture(*session->state());
}

TensorSource& Run::state() {
  refuse_in_child("state");
  ensure_state();
  if (session_ == nullptr) return *store_.source();
  session_state_ = session_->state();
  return *session_state_;
}

void Run::set_weight(const std::string& name, std::span<const std::byte> bytes) {
  refuse_while_running("set_weight");
  ensure_state();
  park();
  store_.write(name, bytes);
}

void Run::save(const std::string& path) {
  const MemoryTag tag(MemoryPart::kFiles);
  formats::check_output_name(path);
  NoTensors none;  // a structure needs no weights
  write_model(path, path.ends_with(".json") ? static_cast<TensorSource&>(none) : state());
}

void Run::write_model(const std::string& path, TensorSource& tensors) const {
  const layers::CompileOptions* compile = compile_ ? &*compile_ : nullptr;
  formats::save_model(path, model_, compile, tensors);
}

void Run::save_or_elsewhere(const std::string& path, const std::string& spill_directory,
                            TensorSource& tensors) const {
  try {
    write_model(path, tensors);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kIo) throw;
    std::string other =
        fmt::format("/plimsoll-{}-{}", ::getpid(), std::filesystem::path(path).filename().string());
    try {
      other.insert(0, choose_spill_folder(spill_directory));
      write_model(other, tensors);
    } catch (const Error&) {
      throw error;
    }
    throw Error(ErrorKind::kIo,
                std::string(error.what()) + " The trained model is in " + other + " instead.");
  }
}

}  // namespace plimsoll::run
