#pragma once

// Writing HDF5 files that Keras, h5py and every HDF5 library since 1.8 open.
//
// The description of a file is data (Hdf5Tree); all its metadata has a known size, so it is written
// first and the elements follow as a stream: into a file, or into a member of an archive, with no
// more memory than the metadata.
//
//   | superblock 2 | object headers … | string heap … | elements of dataset 0 | dataset 1 | … |
//
// Datasets are contiguous and little-endian. Source: "HDF5 File Format Specification Version 3.0".

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "codec/byte_reader.h"
#include "codec/number_format.h"

namespace plimsoll::codec {

// The most bytes that an attribute's own elements may have (HDF5's limit of a header message, less
// room for names and types). Lists of strings count their padded size.
constexpr int64_t kMaxHdf5AttributeBytes = 60 * 1024;

// One text (variable-length UTF-8, of any length), a list of texts (fixed-length, padded by zeros,
// as Keras writes layer_names), or numbers.
using Hdf5Value = std::variant<std::string, std::vector<std::string>, int64_t, double,
                               std::vector<int64_t>, std::vector<double>>;

// What a file is to hold.
class Hdf5Tree {
 public:
  struct Attribute {
    std::string name;
    Hdf5Value value;
    friend bool operator==(const Attribute&, const Attribute&) = default;
  };
  struct Node {
    std::string name;
    bool is_dataset = false;
    NumberFormat format;  // of a dataset
    std::vector<int64_t> shape;
    std::vector<Attribute> attributes;
    std::vector<size_t> children;  // positions in nodes()
    friend bool operator==(const Node&, const Node&) = default;
  };

  Hdf5Tree();

  // Groups on the way are made. Twice the same group is one group; a name that is taken by
  // something else, an empty name, or a negative extent is kInternal. Booleans become h5py's
  // enumeration.
  void add_group(std::string_view path);
  void add_dataset(std::string_view path, DType dtype, std::span<const int64_t> shape);
  void add_dataset(std::string_view path, const NumberFormat& format,
                   std::span<const int64_t> shape);
  // The object exists; "" is the root. Above kMaxHdf5AttributeBytes: kInternal.
  void set_attribute(std::string_view path, std::string_view name, Hdf5Value value);

  // The root first; then in the order of adding.
  std::span<const Node> nodes() const { return nodes_; }

  friend bool operator==(const Hdf5Tree&, const Hdf5Tree&) = default;

 private:
  std::vector<Node> nodes_;

  size_t find_or_add(std::string_view path);
  size_t find(std::string_view path) const;
};

class Hdf5Writer {
 public:
  // Writes everything but the elements. `sink` outlives the writer.
  Hdf5Writer(const Hdf5Tree& tree, ByteSink& sink);

  // The whole file.
  int64_t file_bytes() const { return file_bytes_; }
  // Elements of all datasets, in the order in which they were added, in pieces of any size.
  void write(std::span<const std::byte> elements);
  // Checks that all of them came.
  void finish();

 private:
  ByteSink& sink_;
  int64_t file_bytes_ = 0;
  int64_t written_bytes_ = 0;
};

}  // namespace plimsoll::codec
