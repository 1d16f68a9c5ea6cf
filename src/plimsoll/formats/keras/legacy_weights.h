#pragma once

// The weights of one layer in an older HDF5 file, as the tensors of today. Internal to formats.
//
// Keras 1 kept an LSTM's twelve matrices apart and a Theano-ordered convolution's kernel as
// (filters, channels, rows, columns); Keras 2 and 3 keep what Plimsoll does. Source: the function
// preprocess_weights_for_loading of Keras 2.

#include <string>
#include <vector>

#include "codec/hdf5/hdf5_reader.h"
#include "formats/keras/weight_groups.h"
#include "formats/stored_tensor.h"

namespace plimsoll::formats {

// Who wrote the file.
struct Writer {
  int keras_major = 1;
  std::string backend;  // "tensorflow", "theano", "cntk"; empty: not said
};

// `datasets` are those of the layer in the file's order. Throws kModel.
std::vector<StoredTensor> match_layer(const codec::Hdf5Reader& file, const LayerWeights& layer,
                                      const std::vector<std::string>& datasets,
                                      const Writer& writer);

}  // namespace plimsoll::formats
