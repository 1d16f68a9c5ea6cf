#pragma once

// libhdf5 as the oracle: files made by it for the reader, and a second opinion on what the writer
// made. Files live in memory (its core driver), so no test touches a disk.

#include <cstddef>
#include <string>
#include <vector>

namespace plimsoll::codec::oracle {

enum class Structures { kOldest, kVersion18, kNewest };

struct SampleOptions {
  Structures structures = Structures::kOldest;
  int group_members = 3;  // in the group "many"
  bool chunked = true;
};

// A file with groups, attributes of every kind and datasets of many types; see hdf5_oracle.cpp.
std::vector<std::byte> make_sample(const SampleOptions& options = {});
// A file with a dataset "x" of rows of 700 float32 (see sample_values, seed 5), all in one chunk
// that went through shuffle, deflate and fletcher32.
std::vector<std::byte> make_one_chunk(int rows);
// A file whose group "a" is a member of itself.
std::vector<std::byte> make_cycle();
// A file with a soft link.
std::vector<std::byte> make_soft_link();

// Values of the sample's datasets, in row-major order.
std::vector<float> sample_values(int seed, size_t count);

// What libhdf5 reads from a file image. Failures throw std::runtime_error.
std::vector<float> read_floats(const std::vector<std::byte>& file, const std::string& dataset);
std::vector<long long> read_shape(const std::vector<std::byte>& file, const std::string& dataset);
// A scalar variable-length string.
std::string read_text_attribute(const std::vector<std::byte>& file, const std::string& object,
                                const std::string& name);
// Fixed-length strings, padding taken off.
std::vector<std::string> read_texts_attribute(const std::vector<std::byte>& file,
                                              const std::string& object, const std::string& name);
std::vector<double> read_numbers_attribute(const std::vector<std::byte>& file,
                                           const std::string& object, const std::string& name);
std::vector<std::string> list_group(const std::vector<std::byte>& file, const std::string& group);

}  // namespace plimsoll::codec::oracle
