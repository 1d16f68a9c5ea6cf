#pragma once

// Model files, in and out.
//
//   .keras                       Keras 3's archive: config, metadata, model.weights.h5 in a zip
//   .h5, .hdf5                   a whole model as Keras 1 and 2 saved it
//   .json                        the structure alone
//   .weights.h5, .h5             weights alone, for a structure that is known
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
#include "formats/keras/keras_json.h"
#include "layers/model/model.h"
#include "layers/training/programs.h"

namespace plimsoll::formats {

struct LoadedModel {
  layers::Model model;
  std::optional<layers::CompileOptions> compile;  // the file's own training configuration
  std::unique_ptr<TensorSource> weights;          // null: the file has none
  // Samples and the model's answers to them, "inputs/0", "outputs/0", …; null: the file has none,
  // or the weights are another file's.
  std::unique_ptr<TensorSource> self_test;
};

struct LoadOptions {
  std::string weights;       // a file whose weights are taken in place of the model file's own
  InputShapes input_shapes;  // sizes that the file leaves open
};

// Told apart by content, not by name. Throws kModel or kIo.
LoadedModel load_model(const std::string& path, const LoadOptions& options = {});

// The weights alone: for a run whose optimizer is not the file's, and starts anew.
std::unique_ptr<TensorSource> without_optimizer(std::unique_ptr<TensorSource> weights);

// Format by ending: .keras, .h5 or .hdf5 (whole), .weights.h5 (weights only), .json (structure
// only). Written to a temporary name and renamed.
// `state` holds at least every weight of the model; optimizer variables are written where it has
// them. `self_test` (null: none) is kept in .keras and whole .h5 files. Throws kConfig for an
// ending that is not known, kIo otherwise.
void save_model(const std::string& path, const layers::Model& model,
                const layers::CompileOptions* compile, TensorSource& state,
                TensorSource* self_test = nullptr);

// Whether save_model knows the ending; throws kConfig naming the known ones where it does not.
void check_output_name(const std::string& path);

}  // namespace plimsoll::formats
