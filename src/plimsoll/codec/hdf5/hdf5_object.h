#pragma once

// Object headers and the messages in them, decoded. Internal to codec.
//
// An object (group or dataset) is a list of messages: its type, shape, layout, attributes, links.
// Headers may be scattered over continuation blocks; their number and total size are bounded, so
// blocks that point at each other end in an error.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codec/hdf5/hdf5_reader.h"
#include "codec/hdf5/hdf5_source.h"

namespace plimsoll::codec {

enum Hdf5MessageType : int {
  kHdf5Dataspace = 0x01,
  kHdf5LinkInfo = 0x02,
  kHdf5Datatype = 0x03,
  kHdf5OldFillValue = 0x04,
  kHdf5FillValue = 0x05,
  kHdf5Link = 0x06,
  kHdf5ExternalFiles = 0x07,
  kHdf5Layout = 0x08,
  kHdf5Filters = 0x0B,
  kHdf5AttributeMessage = 0x0C,
  kHdf5Continuation = 0x10,
  kHdf5SymbolTable = 0x11,
  kHdf5AttributeInfo = 0x15,
};

struct Hdf5Message {
  int type = 0;
  bool shared = false;  // the body is a pointer to the message
  std::vector<std::byte> body;
};

struct Hdf5Object {
  std::vector<Hdf5Message> messages;

  const Hdf5Message* find(int type) const;  // the first, or nullptr
  bool is_group() const;
  bool is_dataset() const { return find(kHdf5Layout) != nullptr; }
};

Hdf5Object read_hdf5_object(const Hdf5Source& source, uint64_t address);

// Members of a group, unsorted. Soft and external links are refused.
std::vector<Hdf5Link> read_hdf5_links(const Hdf5Source& source, const Hdf5Object& object);

// A message body as a type or a shape. A null dataspace has the shape (0).
Hdf5Type parse_hdf5_type(const Hdf5Source& source, std::span<const std::byte> body);
std::vector<int64_t> parse_hdf5_shape(const Hdf5Source& source, std::span<const std::byte> body);
// Product of the extents; kModel above 2^62.
int64_t count_hdf5_elements(const Hdf5Source& source, std::span<const int64_t> shape);

// The body of a message that must be there and not shared.
std::span<const std::byte> need_hdf5_message(const Hdf5Source& source, const Hdf5Object& object,
                                             int type, const std::string& what);

std::vector<Hdf5Attribute> read_hdf5_attributes(const Hdf5Source& source, const Hdf5Object& object);

// The strings among `count` raw elements of a string type, at most `max_bytes` in all with those
// that are `held_bytes` already.
std::vector<std::string> decode_hdf5_strings(const Hdf5Source& source, const Hdf5Type& type,
                                             std::span<const std::byte> raw, int64_t count,
                                             int64_t max_bytes, int64_t held_bytes = 0);

// Where the elements of a dataset are.
struct Hdf5Layout {
  enum class Class { kCompact, kContiguous, kChunked };
  Class layout_class = Class::kContiguous;
  std::vector<std::byte> compact;  // the elements themselves
  uint64_t address = 0;            // elements, or chunk tree; undefined: nothing was written
  uint64_t bytes = 0;              // contiguous: said size, 0 where the version tells none
  std::vector<int64_t> chunk;      // extents of a chunk
};
Hdf5Layout parse_hdf5_layout(const Hdf5Source& source, std::span<const std::byte> body,
                             size_t rank);

struct Hdf5Filter {
  int id = 0;
};
std::vector<Hdf5Filter> parse_hdf5_filters(const Hdf5Source& source,
                                           std::span<const std::byte> body);

// One element of the fill value, or empty: zeros.
std::vector<std::byte> read_hdf5_fill_value(const Hdf5Source& source, const Hdf5Object& object);

}  // namespace plimsoll::codec
