#include "gradients.h"

#include <memory>
#include <span>

#include "base/error.h"

namespace nb = nanobind;

namespace plimsoll::python {

void Gradients::begin(bool sums, int64_t step) {
  sums_ = train::Accumulator(sums ? train::Accumulation::kSum : train::Accumulation::kMean);
  sums_.go_on_from(step, 0);
}

double Gradients::accumulate(run::Run& run, const run::StepsRequest& request, TensorSource& state,
                             data::Dataset& dataset, run::Listener& listener) {
  double loss = 0;
  run.steps_on(request, state, pending(), listener, [&](train::Session& session) {
    request_ = request;
    session.reset_metrics();
    try {
      loss = sums_.accumulate(session, dataset, 0, dataset.row_count(), 1);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) sums_.clear(session);  // data are checked before
      throw;
    } catch (...) {
      sums_.clear(session);  // some of the sums may have this batch already
      throw;
    }
  });
  return loss;
}

void Gradients::apply(run::Run& run, run::StepsRequest request, TensorSource& state,
                      const Given& given, run::Listener& listener) {
  request.sample_weights = request_.sample_weights;
  request.weight_shapes = request_.weight_shapes;
  request.target_shapes = request_.target_shapes;
  run.steps_on(request, state, pending(), listener, [&](train::Session& session) {
    request_ = request;
    for (const auto& [weight, array] : given) {
      const auto* const values = static_cast<const float*>(array.data());
      sums_.set_gradient(session, weight, std::vector<float>(values, values + array.size()));
    }
    sums_.apply(session);
  });
}

nb::dict Gradients::read(run::Run& run, const std::map<std::string, std::vector<int64_t>>& shapes) {
  train::Session& session = run.steps(request_);
  nb::dict gradients;
  for (const std::string& weight : train::Accumulator::weights(session)) {
    auto values = std::make_unique<std::vector<float>>(sums_.gradient(session, weight));
    const std::vector<int64_t>& extents = shapes.at(weight);
    const std::vector<size_t> shape(extents.begin(), extents.end());
    std::vector<float>* const held = values.release();
    const nb::capsule owner(
        held, [](void* data) noexcept { delete static_cast<std::vector<float>*>(data); });
    gradients[weight.c_str()] =
        nb::cast(nb::ndarray<nb::numpy, float>(held->data(), shape.size(), shape.data(), owner));
  }
  return gradients;
}

void Gradients::forget(run::Run& run) {
  if (run.has_session()) {
    sums_.clear(run.steps(request_));
  } else {
    sums_.forget();
  }
}

}  // namespace plimsoll::python
