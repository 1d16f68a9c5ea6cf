#include "train/session.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string_view>

#include "base/accounted.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/process_memory.h"
#include "base/spill_folder.h"
#include "exec/spill_queue.h"
#include "layers/model/precision.h"
#include "layers/training/batch_norm_groups.h"
#include "layers/training/metric_result.h"
#include "layers/training/programs.h"
#include "report/plan_text.h"
#include "report/units.h"
#include "train/profile.h"
#include "train/session_streams.h"
#include "train/shared_state.h"
#include "train/step_seconds.h"

namespace plimsoll::train {
namespace {

// What all sessions that live hold.
std::atomic<int64_t> held_by_sessions{0};

planning::PlanRequest plan_request(const SessionOptions& options, const planning::DataMemory& data,
                                   Bytes others) {
  planning::PlanRequest request = options.plan;
  request.data = data;
  request.data.held += others + (options.profile ? kProfileBytes : Bytes(0));
  request.full_answer = false;
  request.estimate = options.profile;
  return request;
}

// The buffers that a data set reads ahead into, for as long as a loop runs.
class AheadGrant {
 public:
  AheadGrant(data::Dataset& dataset, Bytes bytes, int64_t batch, data::Shuffle shuffle)
      : dataset_(dataset), batch_(batch), shuffle_(shuffle) {
    const MemoryTag tag(MemoryPart::kAhead);
    dataset_.grant_ahead(bytes, batch_, shuffle_);
  }
  ~AheadGrant() { dataset_.grant_ahead(Bytes(), batch_, shuffle_); }
  AheadGrant(const AheadGrant&) = delete;
  AheadGrant& operator=(const AheadGrant&) = delete;

 private:
  data::Dataset& dataset_;
  int64_t batch_;
  data::Shuffle shuffle_;
};

[[noreturn]] void refuse_loss(int64_t step, double loss) {
  throw Error(ErrorKind::kData,
              fmt::format("[step {}] expected a finite loss, received {}. The batch's numbers "
                          "are finite: scale the inputs, or lower the learning rate.",
                          step, report::without_sign_of_nan(loss)));
}

}  // namespace

DoesNotFit::DoesNotFit(report::PlanSummary summary)
    : Error(ErrorKind::kBudget,
            fmt::format("{}. Name a limit of at least {}, or ask for a plan of "
                        "the same run, which tells what else would do.",
                        report::refusal_sentence(summary), to_string(report::needed(summary)))),
      summary_(std::make_shared<report::PlanSummary>(std::move(summary))) {}

Session::Session(const layers::Model& model, const layers::CompileOptions& compile,
                 const SessionOptions& options, const planning::RowCounts& rows,
                 const planning::DataMemory& data)
    : options_(options) {
  const layers::BatchSizes batches = planning::batch_sizes(options.batch, rows);
  layers::check_stateful(model, batches);
  planning::PlannedRun planned = planning::plan_shared_run(
      model, compile, batches, plan_request(options, data, Bytes(held_by_sessions.load())),
      options.shard, options.ranks);
  options_.plan.tell = {};  // whoever listened listens while it is planned
  if (!planned.runnable) throw DoesNotFit(std::move(planned.summary));
  summary_ = std::move(planned.summary);
  run_ = std::move(*planned.runnable);
  give_back_free_heap();  // the search is over, and the arena not touched yet
  if (!options.plan.limit && options.guarded) {
    const Bytes guard = planning::guard_without_limit();
    if (summary_.predicted_process > guard) {
      throw Error(
          ErrorKind::kBudget,
          fmt::format(
              "does not fit: {} needs {}, above the guard of {} ({} % of what this process may "
              "use). Name a limit with --memory, such as {}.",
              options.plan.max_slowdown ? "the smallest plan within the time allowed"
                                        : "the fastest plan",
              to_string(summary_.predicted_process), to_string(guard), planning::kGuardPercent,
              report::size_option(guard)));
    }
  }
  limit_check_.emplace(options.plan.limit, run_.plan.arena_bytes, options.whole_process);
  exec::ExecutorOptions how;
  how.times = options.profile;
  if (run_.plan.spill_bytes > Bytes()) {
    how.spill_directory = choose_spill_folder(options.plan.spill_directory);
    how.spill_buffer = run_.overhead.spill - planning::spill_tables(run_.lowered.built.set);
  }
  executor_ = std::make_unique<exec::Executor>(run_.lowered.built.set, run_.plan,
                                               *run_.lowered.backend, how);
  give_back_free_heap();  // what making kernels took for a while
  held_ = run_.plan.arena_bytes + run_.overhead.structures + run_.overhead.kernels + data.held +
          run_.overhead.ahead + run_.overhead.spill;
  held_by_sessions += held_.count();
}

Session::~Session() { held_by_sessions -= held_.count(); }

report::Profile Session::profile() const {
  return make_profile(*executor_, programs().set, run_.estimates);
}

void Session::forget_profile() { executor_->forget_times(); }

// Counters of metrics aside, which begin at zero.
bool Session::has_whole_state(TensorSource* weights) const {
  if (weights == nullptr) return false;
  std::set<std::string_view> known;
  for (const TensorInfo& tensor : weights->tensors()) known.insert(tensor.name);
  for (const NamedBytes& metric : metric_states()) known.insert(metric.name);
  return std::ranges::all_of(graph::states_of(programs().set),
                             [&](const auto& variable) { return known.contains(variable.name); });
}

void Session::initialize(TensorSource* weights) {
  const MemoryTag tag(MemoryPart::kFiles);
  if (has_whole_state(weights)) {
    reset_metrics();
  } else {
    run_without_batch("initialize");
  }
  if (weights != nullptr) take_state(*weights);
  start_slots(weights);
}

// Slots that start as their weights are, where `weights` has none.
void Session::start_slots(TensorSource* weights) {
  const std::vector<graph::Program>& all = programs().set.programs;
  const auto program = std::ranges::find(all, "slots", &graph::Program::name);
  if (program == all.end()) return;
  const auto is_given = [&](const graph::StateVariable& state) {
    return weights != nullptr && std::ranges::find(weights->tensors(), state.name,
                                                   &TensorInfo::name) != weights->tensors().end();
  };
  for (const graph::StateVariable& state : program->graph.states) {
    if (state.role == graph::StateRole::kOptimizerSlot && is_given(state)) return;
  }
  run_without_batch("slots");
}

void Session::run_without_batch(const char* program) {
  backend::StepContext context;
  context.seed = options_.plan.seed;
  context.step = step_;
  context.ranks = options_.ranks;
  executor_->run(program_for(program, 0), context, nullptr, nullptr);
  if (options_.ranks != nullptr) options_.ranks->check();
}

void Session::take_averages() {
  const std::vector<graph::Program>& all = programs().set.programs;
  if (std::ranges::find(all, "averages", &graph::Program::name) == all.end()) return;
  run_without_batch("averages");
}

void Session::take_state(TensorSource& tensors) {
  const MemoryTag tag(MemoryPart::kFiles);
  const std::vector<graph::StateVariable> states = graph::states_of(programs().set);
  const std::span<const TensorInfo> infos = tensors.tensors();
  for (size_t i = 0; i < infos.size(); ++i) {
    const auto state = std::find_if(states.begin(), states.end(), [&](const auto& variable) {
      return variable.name == infos[i].name;
    });
    if (state == states.end()) continue;  // slots of another optimizer, layers of other programs
    take(tensors, i, *state);
  }
}

const std::map<std::string, Session::KnownState, std::less<>>& Session::states_by_name() {
  if (states_by_name_.empty()) {
    const MemoryTag tag(MemoryPart::kStructures);
    for (graph::StateVariable& state : graph::states_of(programs().set)) {
      const std::span<const std::byte> memory = executor_->state_to_read(state.name);
      std::string name = state.name;
      states_by_name_.emplace(std::move(name), KnownState{std::move(state), memory});
    }
  }
  return states_by_name_;
}

bool Session::differs(TensorSource& tensors, size_t index) {
  const auto state = states_by_name().find(tensors.tensors()[index].name);
  if (state == states_by_name().end()) return false;
  const std::span<const std::byte> ours = state->second.memory;
  const std::span<const std::byte> theirs = tensors.in_memory(index);
  return ours.empty() || theirs.size() != ours.size() ||
         std::memcmp(theirs.data(), ours.data(), ours.size()) != 0;
}

void Session::take_changed(TensorSource& tensors) {
  const MemoryTag tag(MemoryPart::kFiles);
  for (size_t i = 0; i < tensors.tensors().size(); ++i) {
    if (!differs(tensors, i)) continue;
    take(tensors, i, states_by_name().find(tensors.tensors()[i].name)->second.variable);
  }
}

void Session::take(TensorSource& tensors, size_t index, const graph::StateVariable& state) {
  const TensorInfo& info = tensors.tensors()[index];
  const auto sharded = std::ranges::find(run_.lowered.sharded, info.name, &ops::ShardedState::name);
  const auto is_type = [&](const graph::ValueType& type) {
    return type.dtype == info.dtype && type.shape.at(1) == info.shape;
  };
  HeldPart part{0, tensor_bytes(state.type.dtype, state.type.shape, 1).count()};
  if (!is_type(state.type)) {
    const bool whole = sharded != run_.lowered.sharded.end();
    const graph::ValueType& type = whole ? sharded->whole : state.type;
    if (!is_type(type)) {
      throw Error(
          ErrorKind::kModel,
          fmt::format("[{}] expected {} {}, received {} {}. The weights belong to another model.",
                      info.name, to_string(type.dtype), to_string(type.shape),
                      to_string(info.dtype), to_string(fixed_shape(info.shape))));
    }
    part = held_part(*sharded, options_.plan.ranks.rank, options_.plan.ranks.count);
  }
  const auto place = std::ranges::find(run_.plan.states, info.name, &plan::StatePlacement::name);
  if (place->space == plan::Space::kState) {
    const std::span<std::byte> memory = executor_->state(info.name);
    const auto held = static_cast<size_t>(part.bytes);
    tensors.read(index, part.first, memory.first(held));
    std::ranges::fill(memory.subspan(held), std::byte{0});
    return;
  }
  // From file to file, never whole in memory.
  const exec::PageBuffer buffer(min(place->bytes, exec::kSpillBuffer));
  for (int64_t at = 0; at < place->bytes.count();) {
    const auto left = static_cast<size_t>(place->bytes.count() - at);
    const std::span<std::byte> piece(buffer.data(), std::min(buffer.size(), left));
    const auto held = std::clamp<int64_t>(part.bytes - at, 0, std::ssize(piece));
    const std::span<std::byte> there = piece.first(static_cast<size_t>(held));
    if (held > 0) tensors.read(index, part.first + at, there);
    std::ranges::fill(piece.subspan(there.size()), std::byte{0});
    executor_->write_state(info.name, at, piece);
    at += std::ssize(piece);
  }
}

data::BatchSource Session::bind(data::Dataset& dataset,
                                const std::vector<layers::ProgramInput>& inputs,
                                data::Shuffle shuffle) const {
  data::BatchSource batches(dataset, bindings_of(inputs),
                            {options_.batch, shuffle, options_.plan.seed});
  batches.share_reading(exec::kernel_threads(summary_.threads));
  return batches;
}

namespace {

// How many samples the step has that the program computes, or computes a share of.
int64_t samples_of(const graph::Program& program) {
  return program.share ? program.share->samples : program.batch;
}

}  // namespace

size_t Session::program_for(const char* name, int64_t rows) const {
  const std::vector<graph::Program>& all = programs().set.programs;
  const std::string tail = std::string(name) + "_tail";
  for (size_t i = 0; i < all.size(); ++i) {
    if (rows == 0 ? all[i].name == name
                  : samples_of(all[i]) == rows && (all[i].name == name || all[i].name == tail)) {
      return i;
    }
  }
  PLIMSOLL_CHECK(false, fmt::format("no program {} of batch {}", name, rows));
}

const std::vector<Session::NamedBytes>& Session::metric_states() const {
  if (metric_states_) return *metric_states_;
  const MemoryTag tag(MemoryPart::kStructures);
  std::vector<NamedBytes>& states = metric_states_.emplace();
  for (const graph::StateVariable& state : graph::states_of(programs().set)) {
    const bool counted = std::ranges::any_of(programs().metrics, [&](const auto& metric) {
      return std::ranges::find(metric.states, state.name) != metric.states.end();
    });
    const int64_t elements = state.type.shape.element_count(1);
    if (counted) states.push_back({state.name, element_bytes(state.type.dtype) * elements});
  }
  return states;
}

void Session::reset_metrics() {
  static constexpr std::array<std::byte, 4096> kZeros{};
  for (const NamedBytes& state : metric_states()) {
    for (int64_t at = 0; at < state.bytes.count(); at += std::ssize(kZeros)) {
      const int64_t left = std::min(state.bytes.count() - at, std::ssize(kZeros));
      executor_->write_state(state.name, at, std::span(kZeros).first(static_cast<size_t>(left)));
    }
  }
}

std::vector<std::byte> Session::save_metrics() const {
  const MemoryTag tag(MemoryPart::kStructures);
  std::vector<std::byte> saved;
  for (const NamedBytes& state : metric_states()) {
    saved.resize(saved.size() + state.bytes.size());
    executor_->read_state(state.name, 0, std::span(saved).last(state.bytes.size()));
  }
  return saved;
}

void Session::restore_metrics(std::span<const std::byte> saved) {
  for (const NamedBytes& state : metric_states()) {
    executor_->write_state(state.name, 0, saved.first(state.bytes.size()));
    saved = saved.subspan(state.bytes.size());
  }
}

std::vector<float> Session::read_floats(const std::string& state) const {
  for (const NamedBytes& each : metric_states()) {
    if (each.name != state) continue;
    std::vector<float> values(each.bytes.size() / sizeof(float));
    executor_->read_state(state, 0, std::as_writable_bytes(std::span(values)));
    return values;
  }
  return {};
}

Metrics Session::read_metrics() const {
  const MemoryTag tag(MemoryPart::kStructures);
  Metrics metrics;
  for (const layers::MetricState& metric : programs().metrics) {
    std::vector<std::vector<float>> states;
    for (const std::string& state : metric.states) states.push_back(read_floats(state));
    const std::vector<double> values = layers::metric_values(metric.result, states);
    if (values.size() == 1) {
      metrics.emplace_back(metric.name, values[0]);
      continue;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      metrics.emplace_back(fmt::format("{}[{}]", metric.name, i), values[i]);
    }
  }
  return metrics;
}

double Session::run_step(data::BatchSource& batches, int64_t epoch, int64_t index,
                         const char* program, bool training) {
  batches.select(epoch, index);
  backend::StepContext context;
  context.seed = options_.plan.seed;
  context.step = step_;
  context.training = training;
  LossSink sink;
  run_program(program_for(program, batches.rows_in(index)), context, batches, sink);
  return sink.loss();
}

// One program on the current batch, or on this rank's share of it.
void Session::run_program(size_t index, backend::StepContext context, InputSource& batch,
                          OutputSink& sink) {
  const std::optional<graph::Share>& share = programs().set.programs[index].share;
  if (!share) {
    executor_->run(index, context, &batch, &sink);
  } else {
    context.ranks = options_.ranks;
    context.samples = share->samples;
    context.first_sample = share->first;
    context.samples_each = share->each;
    SharedRows rows(batch, *share);
    executor_->run(index, context, &rows, &sink);
    options_.ranks->check();
  }
  end_run();
}

Metrics Session::evaluate_batches(data::BatchSource& batches) {
  reset_metrics();
  for (int64_t i = 0; i < batches.batch_count(); ++i) run_step(batches, 0, i, "evaluate", false);
  return read_metrics();
}

Metrics Session::evaluate(data::Dataset& dataset) {
  const MemoryTag tag(MemoryPart::kData);
  const AheadGrant grant(dataset, run_.overhead.ahead, options_.batch, data::Shuffle::kNone);
  data::BatchSource batches = bind(dataset, programs().train_inputs, data::Shuffle::kNone);
  return evaluate_batches(batches);
}

bool Session::has_program(std::string_view program, int64_t rows) const {
  return std::ranges::any_of(programs().set.programs, [&](const graph::Program& one) {
    return samples_of(one) == rows &&
           (one.name == program || one.name == std::string(program) + "_tail");
  });
}

double Session::run_rows(const char* program, data::Dataset& dataset, int64_t first, int64_t count,
                         bool checked) {
  const MemoryTag tag(MemoryPart::kData);
  data::BatchSource rows = bind(dataset, programs().train_inputs, data::Shuffle::kNone);
  rows.select_rows(first, count);
  if (checked) rows.refuse_bad_numbers(count);
  backend::StepContext context;
  context.seed = options_.plan.seed;
  context.step = step_;
  context.training = std::string_view(program) == "train";
  LossSink sink;
  run_program(program_for(program, count), context, rows, sink);
  return sink.loss();
}

void Session::run_apply() { run_without_batch("apply"); }

void Session::read_state(const std::string& name, std::span<std::byte> destination) const {
  executor_->read_state(name, 0, destination);
}

void Session::write_state(const std::string& name, std::span<const std::byte> source) {
  executor_->write_state(name, 0, source);
}

void Session::predict(data::Dataset& dataset, OutputSink& sink, PredictionTurns* turns) {
  const MemoryTag tag(MemoryPart::kData);
  const AheadGrant grant(dataset, run_.overhead.ahead, options_.batch, data::Shuffle::kNone);
  data::BatchSource batches = bind(dataset, programs().predict_inputs, data::Shuffle::kNone);
  if (turns != nullptr) batches.take_every(turns->every());
  ShiftedSink shifted(sink);
  backend::StepContext context;
  context.training = false;
  for (int64_t i = 0; i < batches.batch_count(); ++i) {
    const int64_t rows = batches.rows_in(i);
    shifted.set_first_row(i * options_.batch);
    if (turns == nullptr || turns->has(i)) {
      batches.select(0, i);
      OutputSink& taken = turns == nullptr ? shifted : turns->sink(shifted);
      executor_->run(program_for("predict", rows), context, &batches, &taken);
    }
    if (turns != nullptr) turns->pass(i, rows, shifted);
    end_run();
  }
}

report::ProgressState Session::progress_state(const data::BatchSource& batches) const {
  report::ProgressState state;
  state.step_count = batches.batch_count();
  state.limit = options_.plan.limit.value_or(Bytes(0));
  return state;
}

// What one fit carries from step to step.
struct Session::Loop {
  data::BatchSource batches;
  std::optional<data::BatchSource> validation;
  History history;
  StepSeconds times;
  SteadyClock clock;
  report::ProgressView* progress = nullptr;
  report::ProgressState state;
  bool ended = false;          // by options.ends or options.not_finite
  bool is_not_finite = false;  // a loss was not
};

// Ranks stop where all of them know of it: after a step that one was told to stop before or in.
bool Session::stopped(const FitOptions& options) const {
  return options_.ranks != nullptr ? stop_agreed_ : told_to_stop(options);
}

void Session::agree_on_stop(const FitOptions& options) {
  if (options_.ranks == nullptr) return;
  stop_agreed_ = any_rank(*options_.ranks, told_to_stop(options));
  options_.ranks->check();
}

bool Session::told_to_stop(const FitOptions& options) const {
  return stop_.load(std::memory_order_relaxed) ||
         (options.stop != nullptr && options.stop->load(std::memory_order_relaxed));
}

bool Session::done(const Loop& loop, const FitOptions& options) const {
  return loop.ended || stopped(options) || (options.steps && loop.history.steps >= *options.steps);
}

void Session::run_epoch(Loop& loop, const FitOptions& options) {
  Position& position = loop.history.position;
  report::ProgressState& state = loop.state;
  if (position.batches == 0) reset_metrics();
  const double epoch_start = loop.clock.seconds();
  state.epoch = position.epoch + 1;
  state.samples = 0;
  loop.times.begin_epoch();
  for (state.step = position.batches; state.step < state.step_count && !done(loop, options);) {
    const double start = loop.clock.seconds();
    const StepTraffic before = traffic_of(options_.ranks);
    const double loss = run_step(loop.batches, position.epoch, state.step, "train", true);
    const double now = loop.clock.seconds();
    loop.times.add_step(now - start);
    state.samples += loop.batches.rows_in(state.step);
    position.batches = ++state.step;
    ++step_;
    position.steps = ++loop.history.steps;
    if (options.on_step) options.on_step(loop.history.steps, loss);
    agree_on_stop(options);
    loop.history.traffic.add_step(before, traffic_of(options_.ranks));
    if (!std::isfinite(loss)) {
      if (!loop.is_not_finite) loop.batches.refuse_not_finite();
      loop.is_not_finite = true;
      if (options.not_finite == NotFinite::kRefused) refuse_loss(loop.history.steps, loss);
      loop.ended = loop.ended || options.not_finite == NotFinite::kEndsTraining;
    }
    if (options.on_position) options.on_position(position, false);
    if (loop.progress != nullptr && loop.progress->wants_update(now)) {
      state.seconds = now - epoch_start;
      state.metrics = read_metrics();
      state.memory = process_memory_peak();
      loop.progress->update(state, now);
    }
  }
  loop.times.end_epoch(loop.clock.seconds() - epoch_start);
  end_epoch(loop, options, epoch_start);
}

void Session::end_epoch(Loop& loop, const FitOptions& options, double start) {
  const bool stopped = this->stopped(options);
  const bool whole = loop.state.step == loop.state.step_count;
  EpochResult result;
  result.epoch = loop.history.position.epoch + 1;
  result.metrics = read_metrics();
  if (loop.validation && !stopped) {
    // Validation counts in the same states: an epoch that a resumed run ends needs its own again.
    const std::vector<std::byte> counted = whole ? std::vector<std::byte>{} : save_metrics();
    if (options.on_validation) options.on_validation(true);
    for (auto& [name, value] : evaluate_batches(*loop.validation)) {
      result.metrics.emplace_back("val_" + name, value);
    }
    if (options.on_validation) options.on_validation(false);
    if (!whole) restore_metrics(counted);
  }
  result.seconds = loop.clock.seconds() - start;
  loop.state.seconds = result.seconds;
  loop.state.metrics = result.metrics;
  loop.state.memory = process_memory_peak();
  if (loop.progress != nullptr) loop.progress->finish(loop.state);
  // A stopped epoch is no result of its own: a resumed run ends it.
  if (options.on_epoch && !stopped) options.on_epoch(result);
  if (options.ends && !stopped && whole) loop.ended = options.ends(result);
  if (!options.keep_epochs) loop.history.epochs.clear();
  loop.history.epochs.push_back(std::move(result));
  if (stopped || !whole) return;
  loop.history.position = {loop.history.steps, loop.history.position.epoch + 1, 0};
  if (options.on_position) options.on_position(loop.history.position, true);
}

// What data sources allocate as rows are asked for is the data's, here and below.
History Session::fit(data::Dataset& train, data::Dataset* validation, const FitOptions& options) {
  const MemoryTag tag(MemoryPart::kData);
  const AheadGrant grant(train, run_.overhead.ahead, options_.batch, options.shuffle);
  Loop loop{.batches = bind(train, programs().train_inputs, options.shuffle),
            .validation = std::nullopt,
            .history = {},
            .times = {},
            .clock = {},
            .progress = options.progress,
            .state = {},
            .ended = false};
  if (validation != nullptr) {
    loop.validation.emplace(bind(*validation, programs().train_inputs, data::Shuffle::kNone));
  }
  loop.state = progress_state(loop.batches);
  loop.state.epoch_count = options.epochs;
  loop.history.position = options.start;
  loop.history.steps = options.start.steps;
  agree_on_stop(options);
  while (loop.history.position.epoch < options.epochs && !done(loop, options)) {
    run_epoch(loop, options);
    if (loop.history.position.batches > 0) break;  // stopped within an epoch
  }
  loop.history.interrupted = stopped(options);
  loop.history.seconds_per_step = loop.times.median();
  loop.history.processor_share = loop.times.processor_share(summary_.threads);
  return std::move(loop.history);
}

std::optional<double> Session::learning_rate() const {
  if (programs().learning_rate.empty()) return std::nullopt;
  float value = 0;
  executor_->read_state(programs().learning_rate, 0, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

void Session::set_learning_rate(double rate) {
  PLIMSOLL_CHECK(!programs().learning_rate.empty(), "a learning rate of no one's own");
  const auto value = static_cast<float>(rate);
  executor_->write_state(programs().learning_rate, 0, std::as_bytes(std::span(&value, 1)));
}

std::string Session::fingerprint() const {
  const planning::Lowered& lowered = run_.lowered;
  return to_hex(graph::fingerprint(lowered.of_one ? *lowered.of_one : lowered.built.set));
}

CheckpointHead Session::describe(int64_t rows, data::Shuffle shuffle) const {
  const MemoryTag tag(MemoryPart::kStructures);
  CheckpointHead head;
  head.batch = options_.batch;
  head.rows = rows;
  head.seed = options_.plan.seed;
  head.shuffle = shuffle;
  head.precision = to_string(layers::precision_of(programs().set));
  head.batch_norm = layers::batch_norm_text(layers::batch_norm_group_of(programs().set));
  head.program = planning::training_fingerprint(run_.lowered);
  head.kernel_set = plan().kernel_set;
  head.block_set = plan().block_set;
  head.parts = plan().parts;
  head.lanes = plan().lanes;
  return head;
}

void Session::restore(TensorSource& tensors, int64_t steps) {
  const MemoryTag tag(MemoryPart::kFiles);
  for (const graph::StateVariable& variable : graph::states_of(programs().set)) {
    const auto infos = tensors.tensors();
    const auto found = std::find_if(infos.begin(), infos.end(), [&](const TensorInfo& info) {
      return info.name == variable.name;
    });
    if (found == infos.end()) {
      throw Error(ErrorKind::kModel, "[" + variable.name +
                                         "] expected in the checkpoint, received none. It belongs "
                                         "to another model or optimizer.");
    }
    take(tensors, static_cast<size_t>(found - infos.begin()), variable);
  }
  step_ = steps;
}

void Session::with_whole_state(bool wanted, const std::function<void(TensorSource&)>& use) {
  train::with_whole_state({[this] { return state(); }, run_.lowered.sharded, options_.ranks},
                          wanted, use);
}

std::unique_ptr<TensorSource> Session::state() {
  return std::make_unique<StateSource>(*executor_, programs().set);
}

void Session::check_limit(bool closely) const {
  const bool found = closely ? limit_check_->look_closely() : limit_check_->look();
  if (found && options_.on_passed_limit) {
    options_.on_passed_limit(limit_check_->measured(), *options_.plan.limit);
  }
}

void Session::end_run() const {
  check_limit(false);
  if (options_.between_steps) options_.between_steps();
}

MemoryReport Session::memory() const {
  check_limit(true);
  MemoryReport report;
  report.planned_arena = run_.plan.arena_bytes;
  report.measured_arena = executor_->measured_arena_bytes();
  report.arena_values = executor_->arena_values_bytes();
  report.predicted_process = summary_.predicted_process;
  report.measured_process =
      options_.plan.given > Bytes() ? limit_check_->peak() : process_memory_peak();
  report.limit = options_.plan.limit;
  report.passed_limit = limit_check_->passed();
  return report;
}

}  // namespace plimsoll::train
