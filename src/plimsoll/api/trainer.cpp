#include "api/trainer.h"

#include "api/model_impl.h"
#include "api/spec_impl.h"
#include "base/error.h"
#include "base/format.h"
#include "data/dataset.h"
#include "plan/tree/text.h"
#include "train/accumulator.h"
#include "train/checkpointer.h"

namespace plimsoll {

class Trainer::Impl {
 public:
  Impl(Model::Impl& model, const TrainerOptions& options)
      : model_(model),
        options_(options),
        gradients_(options.reduce == Reduce::kSum ? train::Accumulation::kSum
                                                  : train::Accumulation::kMean) {
    if (options.batch < 1 || options.short_batch < 0 || options.short_batch >= options.batch) {
      throw Error(ErrorKind::kConfig,
                  fmt::format("Trainer: expected a batch of 1 or more and a short_batch below it, "
                              "received {} and {}.",
                              options.batch, options.short_batch));
    }
    gradients_.clear(session());
  }

  train::Session& session() {
    run::StepsRequest request;
    request.settings = api::common_settings(options_);
    request.short_batch = options_.short_batch;
    request.sample_weights = options_.sample_weights;
    request.data = data_;
    return model_.run.steps(request);
  }

  // Opened once, where it is files that no model has opened yet.
  data::Dataset& open(const Dataset& dataset) {
    run::DataRequest& request = api::DatasetAccess::box(dataset).request;
    if (request.opened == nullptr) {
      run::Listener nobody;
      request.opened = model_.run.open(request, nobody);
    }
    return *request.opened;
  }

  double accumulate(data::Dataset& data, int64_t first, int64_t count, double weight) {
    train::Session& session = session_for(data);
    return gradients_.accumulate(session, data, first, count, weight);
  }
  double loss(data::Dataset& data, int64_t first, int64_t count) {
    train::Session& session = session_for(data);
    return gradients_.loss(session, data, first, count);
  }

  train::Accumulator& gradients() { return gradients_; }

  void save_checkpoint(const std::string& folder, int keep) {
    if (gradients_.pending()) {
      throw Error(ErrorKind::kConfig,
                  "save_checkpoint: expected no gradients that wait for an update, received some. "
                  "Call apply or clear first.");
    }
    train::Session& session = this->session();
    train::CheckpointHead head = session.describe(rows(), data::Shuffle::kNone);
    head.position = {.steps = gradients_.updates(), .epoch = 0, .batches = gradients_.calls()};
    train::CheckpointFolder(folder, keep)
        .write(head, plan::print(session.plan(), session.programs().set), *session.state());
  }

  int64_t resume(const std::string& folder) {
    train::CheckpointOptions options;
    options.folder = folder;
    options.resume = true;
    train::Checkpointer checkpoints(options, [this](const std::string& text) {
      if (options_.on_notice) options_.on_notice(text);
    });
    if (checkpoints.found() == nullptr) return 0;
    const train::Position position = checkpoints.restore(session(), rows(), data::Shuffle::kNone);
    gradients_.go_on_from(position.batches, position.steps);
    return position.steps;
  }

 private:
  int64_t rows() const { return options_.batch + options_.short_batch; }

  // Planned anew where the data hold more than was counted.
  train::Session& session_for(const data::Dataset& data) {
    data_ = max(data_, data.resident_bytes());
    return session();
  }

  Model::Impl& model_;
  TrainerOptions options_;
  train::Accumulator gradients_;
  Bytes data_ = 512_KiB;  // what data sets may hold before a new plan is made
};

Trainer::Trainer(Model& model, const TrainerOptions& options)
    : impl_(std::make_shared<Impl>(*model.impl_, options)) {}

double Trainer::accumulate(const Dataset& batch, double weight) {
  return accumulate(batch, 0, batch.row_count(), weight);
}
double Trainer::accumulate(const ArrayView& x, const ArrayView& y, double weight) {
  return accumulate(Dataset::from_arrays(x, y), weight);
}
double Trainer::accumulate(const Dataset& data, int64_t first, int64_t count, double weight) {
  return impl_->accumulate(impl_->open(data), first, count, weight);
}
double Trainer::loss(const Dataset& batch) { return loss(batch, 0, batch.row_count()); }
double Trainer::loss(const Dataset& data, int64_t first, int64_t count) {
  return impl_->loss(impl_->open(data), first, count);
}

void Trainer::apply() { impl_->gradients().apply(impl_->session()); }
void Trainer::clear() { impl_->gradients().clear(impl_->session()); }

std::vector<float> Trainer::gradient(const std::string& weight) {
  return impl_->gradients().gradient(impl_->session(), weight);
}
void Trainer::set_gradient(const std::string& weight, const std::vector<float>& values) {
  impl_->gradients().set_gradient(impl_->session(), weight, values);
}

double Trainer::learning_rate() {
  const std::optional<double> rate = impl_->session().learning_rate();
  if (rate) return *rate;
  throw Error(ErrorKind::kConfig,
              "learning_rate: expected an optimizer with a rate of its own, received one that "
              "follows a schedule.");
}

void Trainer::set_learning_rate(double rate) {
  learning_rate();  // refuses a schedule
  impl_->session().set_learning_rate(rate);
}

MetricValues Trainer::metrics() { return impl_->session().read_metrics(); }
void Trainer::reset_metrics() { impl_->session().reset_metrics(); }

int64_t Trainer::updates() const { return impl_->gradients().updates(); }

MemoryUse Trainer::memory() { return api::to_memory(impl_->session().memory()); }

void Trainer::save_checkpoint(const std::string& folder, int keep) {
  impl_->save_checkpoint(folder, keep);
}
int64_t Trainer::resume(const std::string& folder) { return impl_->resume(folder); }

}  // namespace plimsoll
