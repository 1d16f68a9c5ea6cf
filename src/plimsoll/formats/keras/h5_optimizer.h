#pragma once

// The optimizer's variables in an older HDF5 file. Internal to formats.
//
// Each generation listed them differently:
//   Keras 1, 2      Variable:0, Variable_1:0, …       [counter] every weight's m, every weight's v
//   Keras 2.3, tf.keras to 2.10   Adam/iter:0, Adam/dense/kernel/m:0, …   told by the last word
//   tf.keras from 2.11   iteration:0, Adam/m/dense/kernel:0, …            told by the second word
//   Keras 3         adam/iteration, adam/learning_rate, adam/dense_kernel_momentum, …   in its
//   order
// What does not fit the weights and the optimizer is left out as a whole, with a warning, as Keras
// does.

#include <optional>
#include <vector>

#include "codec/hdf5/hdf5_reader.h"
#include "formats/stored_tensor.h"
#include "layers/model/model.h"
#include "layers/training/programs.h"

namespace plimsoll::formats {

std::vector<StoredTensor> find_h5_optimizer(const codec::Hdf5Reader& file,
                                            const layers::Model& model,
                                            const layers::ModelTree& tree,
                                            const std::optional<layers::CompileOptions>& compile);

}  // namespace plimsoll::formats
