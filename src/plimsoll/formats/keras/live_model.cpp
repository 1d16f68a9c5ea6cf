#include "formats/keras/live_model.h"

#include "base/error.h"
#include "base/format.h"
#include "base/input_lookup.h"
#include "formats/json_text.h"
#include "formats/keras/keras_compile.h"
#include "formats/keras/keras_json.h"
#include "formats/keras/keras_tree.h"
#include "formats/keras/weight_groups.h"

namespace plimsoll::formats {

LiveModel read_live_model(const std::string& config, const std::string& origin) {
  const layers::Config parsed = parse_json(config, origin);
  LiveModel live{read_architecture(parsed, origin), std::nullopt};
  if (const layers::Config* compile = parsed.find("compile_config")) {
    live.compile = read_compile(*compile, live.model, origin);
  }
  for (const layers::ModelPort& port : live.model.inputs()) {
    const layers::Layer& input =
        live.model.layer(live.model.calls()[port.tensor.call.index()].layer);
    if (input.input_lookup() == nullptr) continue;
    throw Error(ErrorKind::kModel,
                "[" + input.input_lookup()->layer +
                    "] expected a layer that trains on numbers, received " +
                    input.input_lookup()->class_name +
                    ", which Keras does not run here. Look the values up first.");
  }
  return live;
}

std::vector<LiveVariable> live_weights(const layers::Model& model) {
  std::vector<LiveVariable> variables;
  for (const WeightGroup& group : archive_groups(model, keras_tree(model))) {
    for (size_t i = group.repeated; i < group.weights.size(); ++i) {
      variables.push_back({fmt::format("{}/vars/{}", group.path, i), group.weights[i]});
    }
  }
  return variables;
}

std::vector<TensorInfo> live_optimizer_variables(const layers::Model& model,
                                                 const layers::CompileOptions& compile) {
  return known_optimizer_tensors(compile.optimizer, archive_groups(model, keras_tree(model)));
}

}  // namespace plimsoll::formats
