#pragma once

// The .keras file: a zip of metadata.json, config.json and model.weights.h5.
//
// The weights are read in place where they are stored uncompressed, as Keras stores them; otherwise
// they are inflated once into a nameless temporary file. Of other members only vocabularies of
// layers that look words up are read ("assets/layers/string_lookup/vocabulary.txt"), within bounds;
// pickles and Python files are refused outright.

#include <memory>
#include <string>

#include "base/tensor_io.h"
#include "codec/byte_reader.h"
#include "formats/model_file.h"

namespace plimsoll::formats {

LoadedModel load_keras_archive(std::shared_ptr<const codec::FileReader> file,
                               const LoadOptions& options);

// The weights of an archive for a model that is known.
std::unique_ptr<TensorSource> open_archive_weights(
    std::shared_ptr<const codec::FileReader> file, const layers::Model& model,
    const std::optional<layers::CompileOptions>& compile);

// config.json of an archive.
layers::Config read_archive_config(std::shared_ptr<const codec::FileReader> file);

void save_keras_archive(const std::string& path, const layers::Model& model,
                        const layers::CompileOptions* compile, TensorSource& state,
                        TensorSource* self_test);

}  // namespace plimsoll::formats
