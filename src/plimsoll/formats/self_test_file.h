#pragma once

// The self-test of a model (train/self_test.h) in its file. Internal to formats.
//
// In an archive it is a member of its own, in HDF5 a group; Keras knows neither and reads past
// both.
//
//   inputs/0, inputs/1, …   outputs/0, …       samples in front, in the order of the model's ports

#include <memory>
#include <string_view>
#include <vector>

#include "base/tensor_io.h"
#include "codec/hdf5/hdf5_reader.h"
#include "codec/hdf5/hdf5_writer.h"

namespace plimsoll::formats {

inline constexpr std::string_view kSelfTestGroup = "plimsoll_self_test";
inline constexpr std::string_view kSelfTestMember = "plimsoll_self_test.h5";

// The tensors below `group` ("" for the root), named as above. Throws kModel.
std::unique_ptr<TensorSource> open_self_test(codec::Hdf5Reader file, std::string_view group);

// Adds the datasets to a file's description, in the order in which copy_tensors writes them.
void add_self_test(codec::Hdf5Tree& tree, const TensorSource& test, std::string_view group);
// 0, 1, 2, …: all tensors of a test.
std::vector<size_t> all_tensors(const TensorSource& test);

}  // namespace plimsoll::formats
