#pragma once

// The weights of a .keras file (model.weights.h5), in and out.
//
//   layers/conv2d/vars/0, 1          weights of the first Conv2D, in the layer's order
//   optimizer/vars/0, 1, 2, …        iterations, learning rate, slots in Keras's order
//
// Tensors are called as state variables are ("conv2d_3/kernel", "optimizer/conv2d_3/kernel/
// momentum"). They are read where they lie and written as they come; no tensor is ever whole in
// memory. Quirks of real files: Keras 2.13 to 2.15 on Windows wrote groups called "layers\dense",
// and 2.13 and 2.14 "_layer_checkpoint_dependencies" in place of "layers", where a layer with
// weights may count twice (keras_order.h).

#include <memory>
#include <optional>

#include "base/tensor_io.h"
#include "codec/byte_reader.h"
#include "layers/model/model.h"
#include "layers/training/programs.h"

namespace plimsoll::formats {

// Checks at once that every weight is there with its shape, and that nothing is left over: kModel.
// Optimizer variables that do not belong to `compile` are left out with a warning, as Keras does.
std::unique_ptr<TensorSource> open_weights(std::shared_ptr<const codec::ByteReader> file,
                                           const layers::Model& model,
                                           const std::optional<layers::CompileOptions>& compile);

// Writes the whole file. `state` holds every weight; optimizer variables are written where it has
// all of them.
void write_weights(const layers::Model& model, const layers::CompileOptions* compile,
                   TensorSource& state, codec::ByteSink& sink);

}  // namespace plimsoll::formats
