#pragma once

// The strings that elements of a dataset or an attribute are: fixed ones lie in the elements,
// variable ones in collections of the global heap, to which the elements point.
//
// One collection is held at a time, the last: strings that were written one after another lie
// together. How often collections are read is bounded, so elements that point to and fro between
// large ones end in an error. Internal to codec.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codec/byte_cursor.h"
#include "codec/hdf5/hdf5_reader.h"
#include "codec/hdf5/hdf5_source.h"

namespace plimsoll::codec {

class Hdf5Strings {
 public:
  Hdf5Strings(const Hdf5Source& source, const Hdf5Type& type) : source_(source), type_(type) {}

  // The string of the element where the cursor is, without its padding. It holds until the next is
  // asked for, and no longer than what the cursor goes over.
  std::string_view next(ByteCursor& elements);
  // The most that it held so far.
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  struct HeapObject {
    uint64_t index = 0;
    uint64_t position = 0;
    uint64_t bytes = 0;
  };

  std::string_view fixed(std::string_view padded) const;
  std::string_view find(uint64_t address, uint64_t index, uint64_t length);
  void load(uint64_t address);

  const Hdf5Source& source_;
  const Hdf5Type& type_;
  bool loaded_ = false;
  uint64_t address_ = 0;
  uint64_t read_bytes_ = 0;            // of all collections
  std::vector<std::byte> collection_;  // the last one
  std::vector<HeapObject> objects_;    // by index
  int64_t peak_bytes_ = 0;
};

}  // namespace plimsoll::codec
