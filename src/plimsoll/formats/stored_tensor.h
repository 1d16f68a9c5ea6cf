#pragma once

// Tensors of a state as they lie in an HDF5 file, read where they lie. Internal to formats.
//
// Most tensors are one dataset of their own shape and stream in pieces of any size. Files of older
// Keras cut some into several datasets or kept their axes in another order; such a tensor is put
// together whole when it is first read, and only one of them is ever held.

#include <memory>
#include <string>
#include <vector>

#include "base/tensor_io.h"
#include "codec/hdf5/hdf5_reader.h"

namespace plimsoll::formats {

// One dataset of a tensor, and how its axes become the tensor's.
struct StoredPiece {
  std::string path;
  std::vector<int> axes{};   // axis i of the tensor is axis axes[i] of the file; empty: the same
  std::vector<int> flips{};  // axes of the tensor that run backwards
  // Factors of the elements, for as many equal blocks of columns of the last axis; empty: as they
  // are. Float32 tensors only.
  std::vector<float> scales{};
  friend bool operator==(const StoredPiece&, const StoredPiece&) = default;
};

struct StoredTensor {
  TensorInfo info;
  std::vector<StoredPiece> pieces;  // joined along the last axis
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

// Throws kModel, naming the tensor, unless the datasets are there and make up its shape.
void check_stored(const codec::Hdf5Reader& file, const StoredTensor& tensor);

// The tensors are checked.
std::unique_ptr<TensorSource> make_stored_source(codec::Hdf5Reader file,
                                                 std::vector<StoredTensor> tensors);

}  // namespace plimsoll::formats
