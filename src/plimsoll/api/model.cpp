#include "api/model.h"

#include <algorithm>
#include <span>

#include "api/model_impl.h"
#include "api/spec_impl.h"
#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "report/table.h"

namespace plimsoll {
namespace {

// Where a weight is in a state; the model has it.
size_t find_weight(const layers::Model& model, const TensorSource& state, const std::string& name) {
  std::vector<std::string> known;
  for (const layers::ModelWeight& weight : model.all_weights()) known.push_back(weight.name);
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    throw Error(ErrorKind::kConfig, "[" + model.name() + "] expected the name of a weight, " +
                                        "received \"" + name + "\"." + did_you_mean(name, known));
  }
  const int64_t index = run::find_tensor(state, name);
  PLIMSOLL_CHECK(index >= 0, name + ": not in the state");
  return static_cast<size_t>(index);
}

layers::CompileOptions compile_options(const Optimizer& optimizer, const std::vector<Loss>& losses,
                                       const std::vector<std::vector<Metric>>& metrics) {
  layers::CompileOptions compile;
  compile.optimizer = api::ObjectAccess::value(optimizer);
  for (const Loss& loss : losses) compile.losses.push_back(api::ObjectAccess::value(loss));
  for (const std::vector<Metric>& list : metrics) {
    std::vector<layers::Config>& values = compile.metrics.emplace_back();
    for (const Metric& metric : list) values.push_back(api::ObjectAccess::value(metric));
  }
  return compile;
}

}  // namespace

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(const Tensor& input, const Tensor& output, const std::string& name)
    : Model(std::vector<Tensor>{input}, std::vector<Tensor>{output}, name) {}
Model::Model(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
             const std::string& name)
    : impl_(std::make_unique<Impl>(api::ModelBuilder::functional(inputs, outputs, name))) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Sequential::Sequential(const std::vector<Layer>& layers, const std::string& name)
    : Model(std::make_unique<Impl>(api::ModelBuilder::sequential(layers, name))) {}

void Model::compile(const Optimizer& optimizer, const Loss& loss,
                    const std::vector<Metric>& metrics) {
  compile(optimizer, std::vector<Loss>{loss}, std::vector<std::vector<Metric>>{metrics});
}

void Model::compile(const Optimizer& optimizer, const std::vector<Loss>& losses,
                    const std::vector<std::vector<Metric>>& metrics) {
  impl_->run.compile(compile_options(optimizer, losses, metrics));
}

void Model::set_batch_norm(const std::string& statistics) { impl_->run.set_batch_norm(statistics); }

std::string Model::batch_norm() const { return impl_->run.batch_norm(); }

void Model::save(const std::string& path) { impl_->run.save(path); }

const std::string& Model::name() const { return impl_->run.model().name(); }

int64_t Model::parameter_count() const { return impl_->run.model().parameters().total(); }

std::string Model::summary() const {
  report::Table table({"layer", "class", "output", "parameters", "output bytes per sample"});
  for (const layers::LayerRow& row : layers::summarize(impl_->run.model())) {
    table.add({row.name, row.class_name, row.output_shape,
               report::format_count(row.parameters.total()),
               report::format_count(row.output_bytes_per_sample.count())});
  }
  return table.print();
}

void Model::set_trainable(const std::string& layer, bool trainable) {
  impl_->run.set_trainable(layer, trainable);
}

std::vector<std::string> Model::weight_names() const {
  std::vector<std::string> names;
  for (const layers::ModelWeight& weight : impl_->run.model().all_weights()) {
    names.push_back(weight.name);
  }
  return names;
}

std::vector<float> Model::weight(const std::string& name) {
  TensorSource& state = impl_->run.state();
  const size_t index = find_weight(impl_->run.model(), state, name);
  const Shape shape = fixed_shape(state.tensors()[index].shape);
  std::vector<float> values(static_cast<size_t>(shape.element_count(1)));
  state.read(index, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

void Model::set_weight(const std::string& name, const std::vector<float>& values) {
  TensorSource& state = impl_->run.state();
  const size_t index = find_weight(impl_->run.model(), state, name);
  const Shape shape = fixed_shape(state.tensors()[index].shape);
  if (shape.element_count(1) != static_cast<int64_t>(values.size())) {
    throw Error(ErrorKind::kConfig, fmt::format("[{}] expected {} values, received {}.", name,
                                                shape.element_count(1), values.size()));
  }
  impl_->run.set_weight(name, std::as_bytes(std::span(values)));
}

Model load_model(const std::string& path, const LoadOptions& options) {
  run::ModelRequest request;
  request.path = path;
  request.weights = options.weights;
  request.input_shapes = options.input_shapes;
  run::Listener nobody;
  run::LoadedModel loaded = run::load(request, {}, {}, nobody);
  return Model(std::make_unique<Model::Impl>(std::move(loaded.file.model),
                                             std::move(loaded.file.compile),
                                             std::move(loaded.file.weights)));
}

}  // namespace plimsoll
