#pragma once

// Keras's record of compile() in a model file, to and from layers::CompileOptions.
//
// Optimizer, losses and metrics stay what the file says (names or serialized objects); whether they
// are known is found out where they are used, so that a command line may replace them, and that
// nothing but training asks. Losses and metrics given by output name are put in the order of the
// outputs. What CompileOptions cannot hold stays in it as it was read (`unread`), to be written
// again; a loss among it is refused where a step is built.

#include <optional>
#include <string>
#include <string_view>

#include "layers/config/config.h"
#include "layers/model/model.h"
#include "layers/training/programs.h"

namespace plimsoll::formats {

// None where the model was not compiled.
std::optional<layers::CompileOptions> read_compile(const layers::Config& compile_config,
                                                   const layers::Model& model,
                                                   const std::string& origin);

// What Keras's record has no place for: over which samples BatchNormalization takes its statistics
// (layers/training/batch_norm_groups.h), as a text of this name in an archive's metadata or an HDF5
// file's attributes. Keras reads past both; whoever goes on with the file trains the same model.
inline constexpr std::string_view kBatchNormKey = "plimsoll_batch_norm";

// `text` as it stands in the file. Throws kModel.
void set_batch_norm(const std::string& text, const std::string& origin,
                    std::optional<layers::CompileOptions>& compile);

// Keras 3's "compile_config". Objects that are not known are written as they were read.
layers::Config write_compile(const layers::CompileOptions& compile, const layers::Model& model);

}  // namespace plimsoll::formats
