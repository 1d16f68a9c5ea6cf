#include "run/fitting.h"

#include <string>
#include <utility>
#include <vector>

#include "base/accounted.h"
#include "base/cgroup.h"
#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/places.h"
#include "data/dataset_stages.h"
#include "formats/model_file.h"
#include "report/plan_text.h"
#include "run/equal_ranks.h"

namespace plimsoll::run {

namespace {

std::vector<std::string> data_read(const FitRequest& request) {
  std::vector<std::string> read;
  for (const DataPaths* paths : {&request.data.paths, &request.validation.paths}) {
    for (const auto* each : {&paths->data, &paths->labels, &paths->like}) {
      read.insert(read.end(), each->begin(), each->end());
    }
  }
  return read;
}

}  // namespace

void check(const FitRequest& request) {
  if (!request.output.empty()) {
    formats::check_output_name(request.output);
    check_place(request.output);
  }
  if (!request.callbacks.keep_best.empty()) {
    formats::check_output_name(request.callbacks.keep_best);
    check_place(request.callbacks.keep_best);
  }
  check_text_name("--log", request.logs.lines);
  check_text_name("--csv-log", request.logs.csv);
  const std::vector<std::string> read = data_read(request);
  check_not_read("--output", request.output, read);
  check_not_read("--keep-best", request.callbacks.keep_best, read);
  check_not_read("--log", request.logs.lines, read);
  check_not_read("--csv-log", request.logs.csv, read);
  if (!request.shuffle.empty()) data::parse_shuffle(request.shuffle);
  if (request.logs.histogram_every > 0 && request.logs.tensorboard.empty()) {
    throw Error(ErrorKind::kConfig, "--histograms: expected --tensorboard FOLDER beside it.");
  }
  const CheckpointRequest& checkpoint = request.checkpoint;
  if (checkpoint.folder.empty() && (checkpoint.resume || !checkpoint.every.empty())) {
    throw Error(ErrorKind::kConfig,
                "--resume and --checkpoint-every: expected --checkpoint FOLDER beside them.");
  }
  if (!checkpoint.every.empty()) train::parse_schedule(checkpoint.every);
  if (request.callbacks.early_stopping) {
    train::parse_early_stopping(*request.callbacks.early_stopping);
  }
  if (request.callbacks.reduce_on_plateau) {
    train::parse_reduce_on_plateau(*request.callbacks.reduce_on_plateau);
  }
}

Fitting::Fitting(Run& run, const FitRequest& request, Listener& listener)
    : run_(run), request_(request), listener_(listener) {
  const Ranks* const ranks = request_.settings.ranks;
  keeps_best_ = !request_.callbacks.keep_best.empty();
  if (ranks == nullptr) return;
  request_.data.paths.set.ranks = request_.settings.ranks;
  request_.validation.paths.set.ranks = request_.settings.ranks;
  leads_ = ranks->rank() == 0;
  if (leads_) return;
  request_.output.clear();
  request_.logs = {};
  request_.callbacks.keep_best.clear();
}

// What a found checkpoint fixes goes into the request.
void Fitting::open_checkpoints() {
  const CheckpointRequest& asked = request_.checkpoint;
  if (asked.folder.empty()) return;
  train::CheckpointOptions options;
  options.folder = asked.folder;
  options.keep = asked.keep;
  options.resume = asked.resume;
  options.writes = leads_;
  if (!asked.every.empty()) options.schedule = train::parse_schedule(asked.every);
  checkpoints_ = std::make_unique<train::Checkpointer>(
      options, [this](const std::string& text) { listener_.notice(text); });
  if (const train::CheckpointHead* head = checkpoints_->found()) {
    request_.settings.seed = head->seed;
    if (request_.shuffle.empty()) request_.shuffle = data::to_string(head->shuffle);
    if (request_.settings.parts == 0) request_.settings.parts = head->parts;
    if (request_.settings.lanes == 0) request_.settings.lanes = head->lanes;
  }
}

void Fitting::open_data() {
  layers::CompileOptions compile = run_.need_compile("fit");
  const Settings& settings = request_.settings;
  data_ = open_training({request_.data, request_.validation, request_.validation_split,
                         request_.class_weights, settings.seed},
                        run_.model(), compile, listener_);
  run_.refuse_no_rows(settings.batch, data_.rows.train);
  if (request_.shuffle.empty()) {
    request_.shuffle = data::to_string(data_.train->usual_shuffle());
  }
  key_.settings = settings;
  key_.rows = data_.rows;
  key_.data = data_.memory;
  key_.data.ahead = data_.train->wants_ahead(settings.batch, shuffle());
  key_.sample_weights = compile.sample_weights;
  key_.weight_shapes = compile.weight_shapes;
  key_.target_shapes = compile.target_shapes;
}

// Null where nothing happens at the ends of epochs.
void Fitting::open_callbacks() {
  const CallbackRequest& asked = request_.callbacks;
  train::CallbackOptions options;
  options.monitor = asked.monitor;
  if (asked.early_stopping) {
    options.early_stopping = train::parse_early_stopping(*asked.early_stopping);
  }
  if (asked.reduce_on_plateau) {
    options.plateau = train::parse_reduce_on_plateau(*asked.reduce_on_plateau);
  }
  options.writes = leads_;
  options.ranks = request_.settings.ranks;
  if (!request_.checkpoint.folder.empty()) {
    options.best_path = request_.checkpoint.folder + "/best.ckpt";
  }
  options.spill_directory = request_.settings.spill_directory;
  options.say = [this](const std::string& text) { listener_.notice(text); };
  if (keeps_best_) {
    options.on_best = [this](train::Session& best) {
      const MemoryTag tag(MemoryPart::kFiles);
      best.with_whole_state(leads_, [this](TensorSource& state) {
        formats::save_model(request_.callbacks.keep_best, run_.model(), &*run_.compile_, state);
      });
    };
  }
  if (!options.any()) return;
  const bool validates = data_.validation != nullptr && !request_.skip_validation;
  callbacks_ = std::make_unique<train::Callbacks>(std::move(options), session(), validates);
}

report::PlanSummary Fitting::describe(const train::Session& session) const {
  report::PlanSummary plan = session.summary();
  plan.data = data::describe(*data_.train) + ", shuffle " + request_.shuffle;
  return plan;
}

train::FitOptions Fitting::options(const train::Position& start) {
  train::FitOptions options;
  options.epochs = request_.epochs;
  options.keep_epochs = request_.keep_epochs;
  options.steps = request_.steps;
  options.not_finite = request_.not_finite;
  options.shuffle = shuffle();
  options.progress = listener_.progress();
  options.start = start;
  options.stop = &run_.stop_;
  if (logs_->wants_steps() || listener_.wants_steps()) {
    options.on_step = [this](int64_t step, double loss) {
      if (logs_->wants_steps()) logs_->step(step, loss);
      if (listener_.wants_steps()) listener_.step(step, loss);
    };
  }
  options.on_validation = [this](bool begins) { listener_.validation(begins); };
  options.on_epoch = [this](const train::EpochResult& result) {
    logs_->epoch(result, session());
    listener_.epoch(result);
  };
  if (callbacks_) {
    options.ends = [this](const train::EpochResult& result) {
      return callbacks_->end_epoch(session(), result);
    };
    if (callbacks_->state().stopped) options.epochs = start.epoch;  // it ended
  }
  return options;
}

// A session by the key, with the state that the run is in. Where one rank or another has none, says
// why; then there is none.
std::optional<Fitting::Refused> Fitting::go_on(int64_t steps) {
  std::unique_ptr<train::Session> session;
  std::optional<Refused> refused;
  try {
    session = run_.prepare(key_, listener_);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBudget) throw;
    refused = {error.what(), std::current_exception()};
  }
  if (Ranks* const ranks = request_.settings.ranks) {
    const bool equal = equal_on(*ranks, session == nullptr ? 0 : session->summary().block_set);
    const int64_t rank = most_on(*ranks, refused ? ranks->rank() : -1);
    if (rank >= 0) {
      const std::string why = text_of(*ranks, static_cast<int>(rank), refused ? refused->why : "");
      if (!refused || rank > 0) refused = {fmt::format("rank {}: {}", rank, why), nullptr};
    } else if (!equal) {
      refused = {"smaller blocks on some ranks alone would give other bits", nullptr};
    }
  }
  if (refused) return refused;
  session->initialize(nullptr);
  session->restore(*run_.store_.source(), steps);
  run_.take_over(std::move(session), key_);
  return std::nullopt;
}

// What is said of a limit that has changed, here or on another rank.
std::string Fitting::limit_text(std::optional<Bytes> changed) const {
  if (Ranks* const ranks = request_.settings.ranks) {
    const int64_t rank = most_on(*ranks, changed ? ranks->rank() : -1);
    const bool own = rank == ranks->rank();
    const int64_t limit = most_on(*ranks, own ? changed->count() : 0);
    if (!changed) {
      return fmt::format("the limit of rank {} is now {}", rank, to_string(Bytes(limit)));
    }
  }
  return "the limit is now " + to_string(*changed);
}

// Takes the run's state to a session within another limit, which on ranks may be another rank's:
// then there is none here. Where there is no plan, the run goes on in one like that before. The
// state is in the store meanwhile, and stays there where both fail.
void Fitting::plan_anew(std::optional<Bytes> limit, const train::Position& position) {
  passed_limit_ = passed_limit_ || session().memory().passed_limit;
  Settings before = run_.key_.settings;
  before.whole_process = false;
  before.tune = false;  // once a run
  before.parts = session().plan().parts;
  before.lanes = session().plan().lanes;
  before.least_shard = session().summary().shard;  // what is held in parts stays so
  run_.park(true, request_.settings.spill_directory);
  key_.settings = before;
  if (limit) key_.settings.memory = limit;
  key_.settings.plan.clear();
  const std::string said = limit_text(limit);
  std::string what = fmt::format("planned anew at step {}", position.steps);
  if (const std::optional<Refused> refused = go_on(position.steps)) {
    key_.settings = before;
    key_.settings.guarded = false;  // it has run so
    if (const std::optional<Refused> again = go_on(position.steps)) {
      if (again->error != nullptr) std::rethrow_exception(again->error);
      throw Error(ErrorKind::kBudget, again->why);
    }
    what = "not enough, the run goes on as planned before (" + refused->why + ")";
  }
  if (checkpoints_) checkpoints_->go_on_in(session());
  const report::PlanSummary& plan = session().summary();
  const std::string blocks =
      plan.block_set == 0 ? std::string("the usual blocks")
                          : "smaller blocks (halved " + report::times_halved(plan.block_set) + ")";
  listener_.notice(fmt::format("{}: {}; predicted peak {}, {}", said, what,
                               to_string(plan.predicted_process), blocks));
}

// Whether steps are left after those that follow before all ranks know of a stop: one, of several.
bool Fitting::has_more_than_next(const train::Position& at) const {
  const int64_t next = request_.settings.ranks == nullptr ? 0 : 1;
  if (request_.steps && at.steps + next >= *request_.steps) return false;
  const int64_t batch = request_.settings.batch;
  const int64_t batches = (data_.rows.train + batch - 1) / batch;
  return at.epoch + 1 < request_.epochs || at.batches + next < batches;
}

// Whether a training that has come to a stop goes on within another limit, this rank's or another
// one's; all ranks ask together.
bool Fitting::agree_to_go_on(const train::History& history, std::optional<Bytes> limit) const {
  bool stopped = run_.stop_ || !history.interrupted;
  bool changed = limit.has_value();
  if (Ranks* const ranks = request_.settings.ranks) {
    stopped = any_rank(*ranks, stopped);
    changed = any_rank(*ranks, changed);
    ranks->check();
  }
  return changed && !stopped;
}

// How many ranks, this one included, are in this process's control group.
int Fitting::sharers() const {
  Ranks* const ranks = request_.settings.ranks;
  if (ranks == nullptr) return 1;
  return count_alike(*ranks, hash_text(host_name() + " " + read_cgroup_memory().path));
}

// Trains to the end, or until it is stopped; a limit that changes takes it from session to session.
train::History Fitting::train(train::FitOptions options) {
  std::optional<train::LimitWatch> watch;
  if (request_.follow_limits) watch.emplace(request_.take_signal, sharers());
  std::optional<Bytes> limit;
  options.on_position = [&](const train::Position& position, bool epoch_ended) {
    if (checkpoints_) checkpoints_->pass(session(), position, epoch_ended);
    if (epoch_ended) return;
    const int64_t asked = run_.asked_limit_.exchange(0);
    std::optional<Bytes> told;
    if (watch) told = watch->poll(session().summary().predicted_process);
    if (asked > 0) told = Bytes(asked);
    if (told) limit = told;
    if (limit && has_more_than_next(position)) session().request_stop();
  };
  while (true) {
    session().forget_stop();
    train::History history = session().fit(
        *data_.train, request_.skip_validation ? nullptr : data_.validation.get(), options);
    if (!agree_to_go_on(history, limit)) return history;
    plan_anew(limit, history.position);
    if (watch) watch->rest();
    options.start = history.position;
    limit.reset();
  }
}

// Files and figures after the last step.
FitResult Fitting::finish(train::History history) {
  const MemoryTag tag(MemoryPart::kFiles);
  listener_.trained();
  FitResult result;
  if (checkpoints_) {
    result.checkpoint_kept = checkpoints_->finish(session(), history.position);
  }
  // A checkpoint has the weights themselves: a resumed run goes on from those.
  if (request_.ends_training && !history.interrupted) session().take_averages();
  if (callbacks_ && !history.interrupted) callbacks_->finish(session());
  result.ended_early = callbacks_ && callbacks_->state().stopped;
  session().with_whole_state(!request_.output.empty(), [&](TensorSource& state) {
    run_.save_or_elsewhere(request_.output, request_.settings.spill_directory, state);
  });
  report::RunSummary& summary = result.summary;
  summary.steps = history.steps;
  summary.stopped = history.interrupted;
  summary.seconds_per_step = history.seconds_per_step;
  summary.estimated_seconds_per_step = session().summary().seconds_per_step;
  summary.times = session().summary().times;
  summary.spill = session().summary().spill;
  summary.processor_share = history.processor_share;
  if (request_.settings.ranks != nullptr && history.traffic.steps > 0) {
    const train::StepTraffic& traffic = history.traffic;
    const auto steps = static_cast<double>(traffic.steps);
    summary.exchanged = report::Exchanged{static_cast<double>(traffic.sent.bytes.count()) / steps,
                                          static_cast<double>(traffic.sent.messages) / steps,
                                          traffic.waited_seconds / steps};
  }
  fill_memory(session(), summary);  // of the writing too
  if (!history.epochs.empty()) summary.metrics = history.epochs.back().metrics;
  summary.passed_limit = summary.passed_limit || passed_limit_;
  summary.left_out_metrics = run_.left_out_metrics_;
  result.profile = session().profile();
  result.logs_whole = logs_->whole();
  result.history = std::move(history);
  return result;
}

void Fitting::open_logs(const report::PlanSummary& plan, const train::Position& start) {
  const MemoryTag tag(MemoryPart::kFiles);
  const bool shown = !request_.logs.tensorboard.empty();
  logs_ = std::make_unique<Logs>(request_.logs, start, shown ? report::to_text(plan, true) : "",
                                 session(), listener_);
}

void Fitting::expect_equal_plans(const train::Session& planned) const {
  if (request_.settings.ranks == nullptr) return;
  SharedRun shared;
  shared.head = planned.describe(data_.rows.train, shuffle());
  shared.shard = planned.summary().shard;
  shared.files = (checkpoints_ ? std::string("checkpoints") : std::string("no checkpoints")) +
                 (keeps_best_ ? ", the best model" : "");
  shared.evaluated = data_.rows.evaluate;
  shared.epochs = request_.epochs;
  shared.steps = request_.steps.value_or(0);
  expect_equal_runs(*request_.settings.ranks, shared);
}

FitResult Fitting::run() {
  check(request_);
  open_checkpoints();
  // No rank writes where another one still looks for what was there before.
  if (request_.settings.ranks != nullptr) any_rank(*request_.settings.ranks, false);
  open_data();
  auto session_made = run_.prepare(key_, listener_);
  expect_equal_plans(session_made ? *session_made : session());
  const report::PlanSummary plan = describe(session_made ? *session_made : session());
  listener_.begin(plan);
  if (session_made) {
    session_made->initialize(run_.store_.source());
    session_made->set_steps(request_.seen_steps);
    run_.take_over(std::move(session_made), key_);
  }
  open_callbacks();
  if (checkpoints_ && callbacks_) checkpoints_->attach(*callbacks_);
  train::Position start;
  if (checkpoints_) start = checkpoints_->restore(session(), data_.rows.train, shuffle());
  if (request_.settings.ranks != nullptr) {
    TensorSource* const from = start.steps == 0 ? run_.store_.source() : nullptr;
    expect_equal_state(*request_.settings.ranks, session(), from, start.steps);
  }
  open_logs(plan, start);
  return finish(train(options(start)));
}

}  // namespace plimsoll::run
