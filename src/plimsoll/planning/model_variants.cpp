#include "planning/model_variants.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "layers/training/optimizers.h"

namespace plimsoll::planning {
namespace {

using layers::Config;
using layers::LayerCall;
using layers::LayerId;
using layers::Model;
using layers::Tensor;

constexpr const char* kWidths[] = {"units", "filters", "output_dim"};

// The key of the layer's width; null where it has none.
const char* find_width(const Config& config) {
  for (const char* key : kWidths) {
    const Config* width = config.find(key);
    if (width != nullptr && width->is_int() && width->as_int() > 1) return key;
  }
  return nullptr;
}

// Per layer: its width is seen by further layers with a width, not by outputs alone.
std::vector<bool> find_hidden(const Model& model) {
  const std::span<const LayerCall> calls = model.calls();
  std::vector<bool> feeds(calls.size());
  std::vector<bool> hidden(model.layer_count());
  for (size_t c = calls.size(); c-- > 0;) {
    const bool wide = find_width(model.layer(calls[c].layer).config()) != nullptr;
    if (wide && feeds[c]) hidden[calls[c].layer.index()] = true;
    if (!wide && !feeds[c]) continue;
    for (const Tensor& input : calls[c].inputs) feeds[input.call.index()] = true;
  }
  return hidden;
}

using Change = std::function<void(const layers::Layer&, LayerId, Config&)>;

// The model made anew from changed configurations; nullopt where they do not go together.
std::optional<Model> rebuild(const Model& model, const Change& change) {
  Model result(model.name(), layers::ModelKind::kFunctional);
  std::vector<LayerId> made(model.layer_count());
  std::vector<std::vector<Tensor>> values;
  const auto map = [&](const Tensor& tensor) {
    return values[tensor.call.index()][static_cast<size_t>(tensor.output)];
  };
  const auto map_all = [&](const auto& tensors, auto member) {
    std::vector<Tensor> mapped;
    mapped.reserve(tensors.size());
    for (const auto& tensor : tensors) mapped.push_back(map(std::invoke(member, tensor)));
    return mapped;
  };
  try {
    for (const LayerCall& call : model.calls()) {
      const layers::Layer& layer = model.layer(call.layer);
      LayerId& id = made[call.layer.index()];
      if (!id.valid()) {
        Config config = layer.config();
        change(layer, call.layer, config);
        id = result.add_layer(layer.class_name(), config);
      }
      values.push_back(result.call(id, map_all(call.inputs, std::identity()), call.arguments));
    }
    result.set_inputs(map_all(model.inputs(), &layers::ModelPort::tensor));
    result.set_outputs(map_all(model.outputs(), &layers::ModelPort::tensor));
    result.check_complete();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) throw;
    return std::nullopt;
  }
  return result;
}

void add_optimizers(const Model& model, const layers::CompileOptions& compile,
                    std::vector<ModelVariant>& variants) {
  const size_t slots = layers::read_optimizer(compile.optimizer).slots.size();
  for (const char* text : {"sgd(momentum=0.9)", "sgd"}) {
    layers::CompileOptions other = compile;
    other.optimizer = layers::parse_optimizer(text);
    if (layers::read_optimizer(other.optimizer).slots.size() >= slots) continue;
    variants.push_back({std::string("--optimizer '") + text + "'",
                        "another optimizer, whose learning rate is to be chosen anew", model,
                        std::move(other), text});
  }
}

void add_frozen(const Model& model, const layers::CompileOptions& compile,
                std::vector<ModelVariant>& variants) {
  std::vector<std::string> weighted;
  for (const LayerCall& call : model.calls()) {
    const std::string& name = model.layer(call.layer).name();
    const bool trained = model.parameters(call.layer).trainable > 0;
    if (trained && std::ranges::find(weighted, name) == weighted.end()) weighted.push_back(name);
  }
  const size_t all = weighted.size();
  if (all < 2) return;
  std::vector<size_t> counts = {(all + 1) / 2};
  if (all - 1 > counts.front()) counts.push_back(all - 1);
  for (size_t count : counts) {
    Model frozen = model;
    for (size_t i = 0; i < count; ++i) frozen.set_trainable(weighted[i], false);
    variants.push_back({fmt::format("the first {} of {} layers with weights frozen, up to {}",
                                    count, all, weighted[count - 1]),
                        "frozen layers keep their weights", std::move(frozen), compile});
  }
}

void add_narrow(const Model& model, const layers::CompileOptions& compile,
                std::vector<ModelVariant>& variants) {
  const std::vector<bool> hidden = find_hidden(model);
  const auto count = std::ranges::count(hidden, true);
  if (count == 0) return;
  std::optional<Model> narrow =
      rebuild(model, [&](const layers::Layer&, LayerId id, Config& config) {
        if (!hidden[id.index()]) return;
        const char* key = find_width(config);
        config.set(key, config.at(key).as_int() / 2);
      });
  if (!narrow) return;
  variants.push_back({fmt::format("half the units and filters of {} layers", count),
                      "another model", std::move(*narrow), compile});
}

void add_small_images(const Model& model, const layers::CompileOptions& compile,
                      std::vector<ModelVariant>& variants) {
  bool any = false;
  std::optional<Model> small =
      rebuild(model, [&](const layers::Layer& layer, LayerId, Config& config) {
        const Config* shape = config.find("batch_shape");
        if (!layer.input_type() || shape == nullptr || !shape->is_array()) return;
        Config::Array sizes = shape->as_array();
        if (sizes.size() != 4) return;
        for (size_t d : {size_t{1}, size_t{2}}) {
          if (!sizes[d].is_int() || sizes[d].as_int() < 2) return;
        }
        for (size_t d : {size_t{1}, size_t{2}}) sizes[d] = sizes[d].as_int() / 2;
        config.set("batch_shape", sizes);
        any = true;
      });
  if (!small || !any) return;
  variants.push_back({"images of half the height and width", "another task: data of that size",
                      std::move(*small), compile});
}

}  // namespace

std::vector<ModelVariant> find_variants(const Model& model, const layers::CompileOptions& compile) {
  std::vector<ModelVariant> variants;
  add_optimizers(model, compile, variants);
  add_frozen(model, compile, variants);
  add_narrow(model, compile, variants);
  add_small_images(model, compile, variants);
  return variants;
}

}  // namespace plimsoll::planning
