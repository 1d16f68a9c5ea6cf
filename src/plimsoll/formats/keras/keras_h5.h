#pragma once

// The HDF5 files of older Keras: a whole model, or its weights alone.
//
//   attributes   model_config, training_config (JSON), keras_version, backend
//   model_weights/            (the root itself in a file of weights)
//     layer_names = [conv2d, dense, …]
//     dense/  weight_names = [dense/kernel:0, …]   dense/dense/kernel:0
//   optimizer_weights/  weight_names = …
//
// Weights belong to layers by name, or by their order where names differ, as Keras has it. What
// Keras 1 stored in another form is converted on the way (legacy_weights.h).

#include <memory>
#include <optional>

#include "base/tensor_io.h"
#include "codec/byte_reader.h"
#include "codec/hdf5/hdf5_reader.h"
#include "formats/model_file.h"

namespace plimsoll::formats {

// Whether a file of that reader holds a model's structure, or weights in this form.
bool is_whole_h5(const codec::Hdf5Reader& file);
bool is_h5_weights(const codec::Hdf5Reader& file);

// "model_config" of a whole model.
layers::Config read_h5_config(const codec::Hdf5Reader& file);

LoadedModel load_keras_h5(const std::shared_ptr<const codec::FileReader>& file,
                          const LoadOptions& options);

// The weights in `file` (whole or not) for a model that is known. Throws kModel where they are
// another model's. Optimizer variables that do not belong to `compile` are left out with a warning.
std::unique_ptr<TensorSource> open_h5_weights(codec::Hdf5Reader file, const layers::Model& model,
                                              const std::optional<layers::CompileOptions>& compile);

void save_keras_h5(const std::string& path, const layers::Model& model,
                   const layers::CompileOptions* compile, TensorSource& state,
                   TensorSource* self_test);

}  // namespace plimsoll::formats
