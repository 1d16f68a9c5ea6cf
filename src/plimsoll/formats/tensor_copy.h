#pragma once

// Streams tensors of a state into an HDF5 file, in pieces. Internal to formats.

#include <vector>

#include "base/tensor_io.h"
#include "codec/hdf5/hdf5_writer.h"

namespace plimsoll::formats {

// `tensors` are positions in the state, in the order of the file's datasets.
void copy_tensors(TensorSource& state, const std::vector<size_t>& tensors,
                  codec::Hdf5Writer& writer);

}  // namespace plimsoll::formats
