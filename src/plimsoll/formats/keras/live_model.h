#pragma once

// A Keras model that lives in another program: its structure as Keras serializes it, its variables
// by where a .keras file would keep them.
//
// Who holds the objects walks them as Keras does when it saves, and finds each variable's path
// ("layers/conv2d/vars/0"): models inside models, shared layers and wrappers need no rules of their
// own.

#include <optional>
#include <string>
#include <vector>

#include "base/tensor_io.h"
#include "layers/model/model.h"
#include "layers/training/programs.h"

namespace plimsoll::formats {

struct LiveModel {
  layers::Model model;
  std::optional<layers::CompileOptions> compile;  // none: not compiled
};

// `config` is what config.json of a .keras file holds. Throws kModel naming layer and reason.
LiveModel read_live_model(const std::string& config, const std::string& origin);

struct LiveVariable {
  std::string path;
  TensorInfo tensor;  // of the state, by the state's name
};

// All weights, in the order in which Keras lists them.
std::vector<LiveVariable> live_weights(const layers::Model& model);
// In the order of Keras's `optimizer.variables`; none where the optimizer is not known.
std::vector<TensorInfo> live_optimizer_variables(const layers::Model& model,
                                                 const layers::CompileOptions& compile);

}  // namespace plimsoll::formats
