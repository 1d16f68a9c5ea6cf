// What a Model does with data: options become requests (run/request.h), and results values.

#include <cstdio>

#include "api/model_impl.h"
#include "api/spec_impl.h"
#include "base/error.h"
#include "base/format.h"
#include "base/log.h"
#include "plan/tree/text.h"
#include "report/plan_page.h"
#include "report/plan_text.h"
#include "report/progress.h"
#include "run/predictions.h"

namespace plimsoll {
namespace {

planning::SpillUse spill_use(Spill spill) {
  switch (spill) {
    case Spill::kNever:
      return planning::SpillUse::kNever;
    case Spill::kAlways:
      return planning::SpillUse::kAlways;
    case Spill::kIfNeeded:
      break;
  }
  return planning::SpillUse::kIfNeeded;
}

template <typename Options>
run::Settings settings_of(const Options& options) {
  if (options.max_slowdown && !(*options.max_slowdown >= 1)) {
    throw Error(ErrorKind::kConfig,
                fmt::format("max_slowdown: expected a factor from 1 on, received {:f}.",
                            *options.max_slowdown));
  }
  run::Settings settings = api::common_settings(options);
  settings.plan_time = options.plan_time;
  settings.max_slowdown = options.max_slowdown;
  settings.without = options.without;
  settings.plan = options.plan;
  settings.spill = spill_use(options.spill);
  settings.spill_limit = options.spill_limit;
  settings.spill_directory = options.spill_dir;
  return settings;
}

run::DataRequest request_of(const Dataset* dataset) {
  return dataset == nullptr ? run::DataRequest{} : api::DatasetAccess::box(*dataset).request;
}

// Read as the training data are: its sample weights are not those of another set.
run::DataRequest validation_of(const Dataset* dataset) {
  run::DataRequest request = request_of(dataset);
  request.paths.data_option = "validation data";
  request.paths.labels_option = "validation labels";
  return request;
}

run::FitRequest fit_request(const Dataset& dataset, const FitOptions& options) {
  run::FitRequest request;
  request.settings = settings_of(options);
  request.settings.profile = options.profile;
  request.data = request_of(&dataset);
  request.validation = validation_of(options.validation);
  request.validation_split = options.validation_split;
  request.class_weights = options.class_weights;
  request.epochs = options.epochs;
  request.steps = options.steps;
  request.shuffle = options.shuffle;
  request.output = options.output;
  request.callbacks = {options.monitor, options.early_stopping, options.reduce_on_plateau,
                       options.keep_best};
  request.logs = {options.log, options.log_steps, options.csv_log, options.tensorboard,
                  options.histograms};
  request.checkpoint = {options.checkpoint, options.checkpoint_every, options.checkpoint_keep,
                        options.resume};
  request.keep_epochs = true;
  request.follow_limits = options.follow_limits;
  return request;
}

PlanAnswer to_answer(const planning::PlannedRun& planned) {
  const report::PlanSummary& summary = planned.summary;
  PlanAnswer answer;
  answer.answer = summary.verdict();
  if (summary.refusal) answer.reason = summary.refusal->reason;
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
  answer.html = report::to_html(summary);
  if (planned.runnable) {
    answer.plan = plan::print(planned.runnable->plan, planned.runnable->lowered.built.set);
  }
  return answer;
}

EpochReport to_epoch(const train::EpochResult& result) {
  return {result.epoch, result.metrics, result.seconds};
}

void notice(const std::function<void(const std::string&)>& on_notice, const std::string& text) {
  if (on_notice) {
    on_notice(text);
  } else {
    log(LogLevel::kWarning, text);
  }
}

class NoticeListener final : public run::Listener {
 public:
  explicit NoticeListener(const RunOptions& options) : options_(options) {}

  void notice(const std::string& text) override { plimsoll::notice(options_.on_notice, text); }

 private:
  const RunOptions& options_;
};

// Calls the user's callbacks; draws progress on standard error where it is asked to.
class FitListener final : public run::Listener {
 public:
  explicit FitListener(const FitOptions& options) : options_(options), progress_(stderr) {}

  void notice(const std::string& text) override { plimsoll::notice(options_.on_notice, text); }
  void begin(const report::PlanSummary& plan) override {
    if (options_.on_plan) options_.on_plan(report::to_text(plan, false));
  }
  report::ProgressView* progress() override { return options_.progress ? &progress_ : nullptr; }
  bool wants_steps() const override { return options_.on_step != nullptr; }
  void step(int64_t step, double loss) override { options_.on_step(step, loss); }
  void epoch(const train::EpochResult& result) override {
    if (options_.on_epoch) options_.on_epoch(to_epoch(result));
  }

 private:
  const FitOptions& options_;
  report::Progress progress_;
};

// A whole output of a model, row by row into one array.
class PredictionsSink final : public OutputSink {
 public:
  PredictionsSink(const layers::Model& model, int64_t row_count) {
    for (const layers::ModelPort& output : model.outputs()) {
      run::check_float_output(output);
      Predictions predictions;
      predictions.shape = output.type.shape.at(row_count);
      row_elements_.push_back(output.type.shape.elements_per_sample());
      predictions.values.resize(static_cast<size_t>(output.type.shape.element_count(row_count)));
      outputs_.push_back(std::move(predictions));
    }
  }
  static Bytes held_per_row(const layers::Model& model) {
    Bytes bytes;
    for (const layers::ModelPort& output : model.outputs()) {
      bytes += element_bytes(DType::kFloat32) * output.type.shape.elements_per_sample();
    }
    return bytes;
  }
  void take(int output, int64_t row_begin, int64_t row_count, const void* rows) override {
    const auto index = static_cast<size_t>(output);
    const auto* values = static_cast<const float*>(rows);
    std::copy(values, values + row_count * row_elements_[index],
              outputs_[index].values.begin() + row_begin * row_elements_[index]);
  }
  std::vector<Predictions> finish() { return std::move(outputs_); }

 private:
  std::vector<int64_t> row_elements_;
  std::vector<Predictions> outputs_;
};

}  // namespace

Bytes held_by_process() { return planning::read_given(); }

MemoryUse api::to_memory(const train::MemoryReport& report) {
  return {report.planned_arena,    report.measured_arena, report.predicted_process,
          report.measured_process, report.limit,          report.passed_limit};
}

PlanAnswer Model::plan(const RunOptions& options) const {
  run::FitRequest request;
  request.settings = settings_of(options);
  NoticeListener listener(options);
  return to_answer(impl_->run.plan(request, options.why, listener));
}

PlanAnswer Model::plan(const Dataset& dataset, const Dataset* validation,
                       const RunOptions& options) const {
  run::FitRequest request;
  request.settings = settings_of(options);
  request.data = request_of(&dataset);
  request.validation = validation_of(validation);
  NoticeListener listener(options);
  return to_answer(impl_->run.plan(request, options.why, listener));
}

History Model::fit(const Dataset& dataset, const FitOptions& options) {
  FitListener listener(options);
  const run::FitResult result = impl_->run.fit(fit_request(dataset, options), listener);
  History history;
  for (const train::EpochResult& epoch : result.history.epochs) {
    history.epochs.push_back(to_epoch(epoch));
  }
  history.steps = result.history.steps;
  history.seconds_per_step = result.history.seconds_per_step;
  const report::RunSummary& summary = result.summary;
  history.memory = {summary.planned_arena,    summary.measured_arena, summary.predicted_process,
                    summary.measured_process, summary.limit,          summary.passed_limit};
  history.interrupted = result.history.interrupted;
  history.logs_whole = result.logs_whole;
  history.checkpoint_kept = result.checkpoint_kept;
  if (options.profile) {
    history.profile = report::to_text(result.profile);
    history.profile_json = report::to_json(result.profile);
  }
  return history;
}

void Model::request_stop() { impl_->run.request_stop(); }
void Model::change_limit(Bytes limit) { impl_->run.change_limit(limit); }

MetricValues Model::evaluate(const Dataset& dataset, const RunOptions& options) {
  NoticeListener listener(options);
  return impl_->run.evaluate({settings_of(options), request_of(&dataset)}, listener).metrics;
}

std::vector<Predictions> Model::predict(const Dataset& dataset, const RunOptions& options) {
  NoticeListener listener(options);
  std::optional<PredictionsSink> sink;
  const auto open = [&](int64_t rows) -> OutputSink& {
    return sink.emplace(impl_->run.model(), rows);
  };
  impl_->run.predict({settings_of(options), request_of(&dataset)}, open,
                     PredictionsSink::held_per_row(impl_->run.model()), listener);
  return sink->finish();
}

std::vector<std::string> Model::predict_to(const std::string& path, const Dataset& dataset,
                                           const RunOptions& options) {
  run::check_predictions_name("path", path);
  NoticeListener listener(options);
  std::optional<run::PredictionFiles> files;
  const auto open = [&](int64_t rows) -> OutputSink& {
    return files.emplace(path, impl_->run.model(), rows);
  };
  impl_->run.predict({settings_of(options), request_of(&dataset)}, open, Bytes(), listener);
  files->finish();
  return files->paths();
}

}  // namespace plimsoll
