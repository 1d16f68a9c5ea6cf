#pragma once

// Model files, in and out: Keras's JSON and .keras (config, metadata, model.weights.h5 in a zip).
//
// Loading reads structure and training configuration at once and leaves the weights in the file:
// they stream through the TensorSource into the arena, named as the state variables of the
// programs are ("conv2d/kernel", optimizer slots too), so that N bytes of weights never need 2 N.
// Files are untrusted: every size is bounded, nothing is executed or unpickled, and what cannot be
// trained is refused by layer name and reason (kModel).

#include <memory>
#include <optional>
#include <string>

#include "base/tensor_io.h"
#include "layers/model.h"
#include "layers/programs.h"

namespace plimsoll::formats {

struct LoadedModel {
  layers::Model model;
  std::optional<layers::CompileOptions> compile;  // the file's own training configuration
  std::unique_ptr<TensorSource> weights;          // null: the file has none
};

// Told apart by content, not by name. Throws kModel or kIo.
LoadedModel load_model(const std::string& path);

// The weights alone: for a run whose optimizer is not the file's, and starts anew.
std::unique_ptr<TensorSource> without_optimizer(std::unique_ptr<TensorSource> weights);

// Format by ending: .keras, or .json (structure only). Written to a temporary name and renamed.
// `state` holds at least every weight of the model; optimizer variables are written where it has
// them. Throws kConfig for an ending that is not known, kIo otherwise.
void save_model(const std::string& path, const layers::Model& model,
                const layers::CompileOptions* compile, TensorSource& state);

// Whether save_model knows the ending; throws kConfig naming the known ones where it does not.
void check_output_name(const std::string& path);

}  // namespace plimsoll::formats
