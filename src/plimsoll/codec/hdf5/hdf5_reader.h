#pragma once

// Reading the HDF5 files that Keras and h5py write, without trusting them.
//
// Supported: superblocks 0 to 3; groups as symbol tables or link messages; object headers 1 and 2;
// attributes in object headers; numbers, booleans, fixed and variable-length strings; contiguous,
// compact and chunked data (B-tree version 1; deflate, LZF, shuffle, fletcher32). Not supported,
// and refused by name: links and attributes in fractal heaps, soft and external links, external
// data, shared messages, other filters. Of compound types, fields of numbers and arrays of them.
//
// Every offset, size and count is checked against the file before it is used; structures that
// contain themselves are detected; what is held in memory is bounded. A malformed file gives an
// Error of kind kModel that says where. Source: "HDF5 File Format Specification Version 3.0".

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "codec/byte_reader.h"
#include "codec/number_format.h"

namespace plimsoll::codec {

// A field of a compound type.
struct Hdf5Member {
  std::string name;
  int64_t offset = 0;      // in an element
  bool is_number = false;  // or numbers side by side
  NumberFormat number{};
  int64_t count = 1;
  friend bool operator==(const Hdf5Member&, const Hdf5Member&) = default;
};

// An element type of a dataset or attribute.
struct Hdf5Type {
  enum class Class : uint8_t { kNumber, kFixedString, kVariableString, kOther };
  // What follows the text in a fixed string that is longer; kZeroEnds: a zero, and anything.
  enum class Padding : uint8_t { kZeroEnds, kZeros, kBlanks };

  bool is_string() const {
    return type_class == Class::kFixedString || type_class == Class::kVariableString;
  }

  Class type_class = Class::kOther;
  NumberFormat number;                // kNumber
  Padding padding = Padding::kZeros;  // kFixedString
  int64_t bytes = 0;                  // of one element in the file
  std::string described;              // kOther: what it is, "a compound type"
  std::vector<Hdf5Member> members{};  // of a compound type whose fields are all known
  friend bool operator==(const Hdf5Type&, const Hdf5Type&) = default;
};

// Decoded: numbers stay raw, strings are text. An empty dataspace ("null") has no elements.
struct Hdf5Attribute {
  std::string name;
  Hdf5Type type;
  std::vector<int64_t> shape;        // empty: a scalar
  std::vector<std::byte> raw;        // kNumber: elements in order
  std::vector<std::string> strings;  // both string classes, padding taken off
};

struct Hdf5Link {
  std::string name;
  uint64_t address = 0;  // of the object's header
  friend bool operator==(const Hdf5Link&, const Hdf5Link&) = default;
};

struct Hdf5DatasetInfo {
  Hdf5Type type;
  std::vector<int64_t> shape;
  int64_t element_count = 0;
  friend bool operator==(const Hdf5DatasetInfo&, const Hdf5DatasetInfo&) = default;
};

// Elements of one dataset. Not safe for several threads at once (it keeps decoded chunks).
class Hdf5Dataset {
 public:
  virtual ~Hdf5Dataset() = default;
  const Hdf5DatasetInfo& info() const { return info_; }
  // Elements [begin, begin + count) in row-major order as they are in the file. Numbers, and
  // compound types whose members are known.
  virtual void read_raw(int64_t begin, int64_t count, std::span<std::byte> destination) = 0;
  // The same, converted (see number_format.h); kModel where a value does not fit.
  void read_as(DType dtype, int64_t begin, int64_t count, void* destination);
  // The most that reading holds.
  virtual int64_t resident_bytes() const = 0;
  // Whether chunks are decoded, which takes a decoder while it is done.
  virtual bool decodes() const = 0;
  // So much of that is there since it was opened.
  virtual int64_t table_bytes() const = 0;
  // All strings of a string dataset, at most `max_bytes` together.
  virtual std::vector<std::string> read_strings(int64_t max_bytes) = 0;
  // Hands them out one by one instead, in order, and tells the most that it held beside
  // resident_bytes: a string lies in memory while it is handed out.
  virtual int64_t visit_strings(const std::function<void(std::string_view)>& visit) = 0;

 protected:
  Hdf5DatasetInfo info_;
  std::string name_;
};

class Hdf5Reader {
 public:
  explicit Hdf5Reader(std::shared_ptr<const ByteReader> file);
  Hdf5Reader(Hdf5Reader&&) noexcept;
  ~Hdf5Reader();

  const std::string& name() const;

  // Paths are "a/b/c" from the root; "" and "/" are the root. A name is never split at a backslash.
  bool exists(std::string_view path) const;
  bool is_group(std::string_view path) const;
  bool is_dataset(std::string_view path) const;
  // Members of a group, sorted by name as HDF5 sorts them (bytewise). Throws kModel where it is
  // none.
  std::vector<std::string> list(std::string_view path) const;
  // Paths of all datasets below `path`, depth first in the order of list. An object that is reached
  // by several names is listed under each; one that contains itself is kModel.
  std::vector<std::string> list_datasets(std::string_view path) const;

  // All attributes of a group or dataset, sorted by name.
  std::vector<Hdf5Attribute> attributes(std::string_view path) const;
  std::optional<Hdf5Attribute> attribute(std::string_view path, std::string_view name) const;
  // A single string; none where the attribute is absent; kModel where it is something else.
  std::optional<std::string> text_attribute(std::string_view path, std::string_view name) const;
  // A list of strings; also put together from name0, name1, …, into which Keras splits a long one.
  std::optional<std::vector<std::string>> texts_attribute(std::string_view path,
                                                          std::string_view name) const;

  // The type of a dataset's elements; nothing is read of where they are.
  Hdf5Type type(std::string_view path) const;

  // Throws kModel with a did-you-mean where there is no dataset of that name. Chunks that are too
  // large to hold are decoded into `folder` ("": see base/spill_folder.h).
  std::unique_ptr<Hdf5Dataset> open(std::string_view path, const std::string& folder = "") const;

 private:
  class Impl;
  std::shared_ptr<const Impl> impl_;
};

// True when the file has an HDF5 signature where one may be.
bool looks_like_hdf5(const ByteReader& file);

}  // namespace plimsoll::codec
