#include "codec/hdf5/hdf5_writer.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "codec/byte_cursor.h"
#include "codec/hdf5/hdf5_checksum.h"

namespace plimsoll::codec {
namespace {

constexpr uint64_t kUndefined = UINT64_MAX;
constexpr size_t kSuperblockBytes = 48;
constexpr size_t kMinHeapBytes = 4096;
constexpr size_t kHeapHeaderBytes = 16;
constexpr size_t kMaxHeapObjects = 65'000;  // an index has 16 bits

using Kind = NumberFormat::Kind;

size_t round_to_8(size_t size) { return (size + 7) / 8 * 8; }

// Type: class and version · class bits · size · properties.
ByteBuilder encode_number_type(const NumberFormat& format) {
  const uint64_t bits = 8 * static_cast<uint64_t>(format.bytes);
  const uint64_t order = format.big_endian && format.bytes > 1 ? 1 : 0;
  ByteBuilder type;
  switch (format.kind) {
    case Kind::kSigned:
    case Kind::kUnsigned:
      type.put(0x10, 1).put(order | (format.kind == Kind::kSigned ? 8u : 0u), 3);
      type.put(static_cast<uint64_t>(format.bytes), 4).put(0, 2).put(bits, 2);
      return type;
    case Kind::kFloat:
    case Kind::kBFloat: {
      uint64_t mantissa = format.bytes == 2 ? 10 : (format.bytes == 4 ? 23 : 52);
      if (format.kind == Kind::kBFloat) mantissa = 7;
      const uint64_t exponent = bits - 1 - mantissa;
      constexpr uint64_t kImpliedOne = 0x20;  // normalization of the mantissa
      type.put(0x11, 1).put(order | kImpliedOne | ((bits - 1) << 8), 3);
      type.put(static_cast<uint64_t>(format.bytes), 4).put(0, 2).put(bits, 2);
      type.put(mantissa, 1).put(exponent, 1).put(0, 1).put(mantissa, 1);
      type.put((uint64_t{1} << (exponent - 1)) - 1, 4);
      return type;
    }
    case Kind::kBool:
      break;
  }
  type.put(0x18, 1).put(2, 3).put(1, 4);
  type.put_bytes(encode_number_type({Kind::kSigned, 1, false}).bytes());
  for (const char* name : {"FALSE", "TRUE"}) {
    const size_t begin = type.size();
    type.put_text(name).pad_to(begin + 8);
  }
  return type.put(0, 1).put(1, 1);
}

ByteBuilder encode_fixed_string_type(size_t bytes) {
  constexpr uint64_t kPaddedByZeros = 1;
  ByteBuilder type;
  return type.put(0x13, 1).put(kPaddedByZeros, 3).put(bytes, 4);
}

ByteBuilder encode_variable_string_type() {
  constexpr uint64_t kString = 1;
  constexpr uint64_t kUtf8 = 1;
  ByteBuilder type;
  type.put(0x19, 1).put(kString | (kUtf8 << 8), 3).put(16, 4);
  return type.put(0x13, 1).put(kUtf8 << 4, 3).put(1, 4);
}

ByteBuilder encode_shape(std::span<const int64_t> shape, bool scalar) {
  ByteBuilder space;
  space.put(2, 1).put(shape.size(), 1).put(0, 1).put(scalar ? 0 : 1, 1);
  for (int64_t extent : shape) space.put(static_cast<uint64_t>(extent), 8);
  return space;
}

// Where a variable-length string lies in the heap.
struct HeapPlace {
  size_t collection = 0;
  uint64_t index = 0;
};

// All variable-length strings of the file, packed into collections.
class StringHeap {
 public:
  HeapPlace add(std::string_view text) {
    if (collections_.empty() || collections_.back().count >= kMaxHeapObjects) {
      collections_.emplace_back();
    }
    Collection& collection = collections_.back();
    const uint64_t index = ++collection.count;
    ByteBuilder& body = collection.body;
    body.put(index, 2).put(1, 2).put(0, 4).put(text.size(), 8).put_text(text);
    body.pad_to(round_to_8(body.size()));
    return {collections_.size() - 1, index};
  }

  // Collections follow each other from `begin` on; returns their end.
  uint64_t place(uint64_t begin) {
    for (Collection& collection : collections_) {
      collection.address = begin;
      begin += size_of(collection);
    }
    return begin;
  }
  uint64_t address(size_t collection) const { return collections_[collection].address; }

  void write(ByteBuilder& out) const {
    for (const Collection& collection : collections_) {
      const size_t begin = out.size();
      const size_t size = size_of(collection);
      out.put_text("GCOL").put(1, 1).put(0, 3).put(size, 8).put_bytes(collection.body.bytes());
      const size_t free = size - (out.size() - begin);
      if (free >= kHeapHeaderBytes) out.put(0, 8).put(free, 8);
      out.pad_to(begin + size);
    }
  }

 private:
  struct Collection {
    ByteBuilder body;
    uint64_t count = 0;
    uint64_t address = 0;
  };

  static size_t size_of(const Collection& collection) {
    return std::max(kMinHeapBytes, kHeapHeaderBytes + collection.body.size());
  }

  std::vector<Collection> collections_;
};

struct EncodedValue {
  ByteBuilder type;
  ByteBuilder space;
  ByteBuilder data;
};

EncodedValue encode_texts(const std::vector<std::string>& texts) {
  size_t width = 1;
  for (const std::string& text : texts) width = std::max(width, text.size());
  const int64_t count = static_cast<int64_t>(texts.size());
  EncodedValue value{encode_fixed_string_type(width), encode_shape({&count, 1}, false), {}};
  for (const std::string& text : texts) {
    const size_t begin = value.data.size();
    value.data.put_text(text).pad_to(begin + width);
  }
  return value;
}

template <typename Number>
EncodedValue encode_numbers(std::span<const Number> numbers, bool scalar) {
  const bool floating = std::is_floating_point_v<Number>;
  const auto count = static_cast<int64_t>(numbers.size());
  EncodedValue value;
  value.type = encode_number_type({floating ? Kind::kFloat : Kind::kSigned, 8, false});
  value.space = scalar ? encode_shape({}, true) : encode_shape({&count, 1}, false);
  for (Number number : numbers) value.data.put(std::bit_cast<uint64_t>(number), 8);
  return value;
}

EncodedValue encode_value(const Hdf5Value& value, const StringHeap& heap, HeapPlace place) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    EncodedValue encoded{encode_variable_string_type(), encode_shape({}, true), {}};
    encoded.data.put(text->size(), 4).put(heap.address(place.collection), 8).put(place.index, 4);
    return encoded;
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    return encode_texts(*texts);
  }
  if (const auto* number = std::get_if<int64_t>(&value)) {
    return encode_numbers(std::span(number, 1), true);
  }
  if (const auto* number = std::get_if<double>(&value)) {
    return encode_numbers(std::span(number, 1), true);
  }
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value)) {
    return encode_numbers(std::span(*numbers), false);
  }
  return encode_numbers(std::span(std::get<std::vector<double>>(value)), false);
}

// Places of everything; zeros while sizes are being found.
struct Places {
  std::vector<uint64_t> headers;                // by node
  std::vector<uint64_t> elements;               // by node, kUndefined where there are none
  std::vector<std::vector<HeapPlace>> strings;  // by node and attribute
};

void put_message(ByteBuilder& messages, uint64_t type, const ByteBuilder& body) {
  PLIMSOLL_CHECK(body.size() < 65'536, "an HDF5 header message of 64 KiB and more");
  messages.put(type, 1).put(body.size(), 2).put(0, 1).put_bytes(body.bytes());
}

uint64_t element_bytes_of(const Hdf5Tree::Node& node) {
  uint64_t bytes = static_cast<uint64_t>(node.format.bytes);
  for (int64_t extent : node.shape) bytes *= static_cast<uint64_t>(extent);
  return bytes;
}

void put_group_messages(ByteBuilder& messages, const Hdf5Tree& tree, const Hdf5Tree::Node& node,
                        const Places& places) {
  ByteBuilder link_info;
  link_info.put(0, 2).put(kUndefined, 8).put(kUndefined, 8);
  put_message(messages, 0x02, link_info);
  ByteBuilder group_info;
  put_message(messages, 0x0A, group_info.put(0, 2));
  for (size_t child : node.children) {
    constexpr uint64_t kNameOf2Bytes = 1;
    constexpr uint64_t kHasEncoding = 16;
    const std::string& name = tree.nodes()[child].name;
    ByteBuilder link;
    link.put(1, 1).put(kNameOf2Bytes | kHasEncoding, 1).put(1, 1).put(name.size(), 2);
    link.put_text(name).put(places.headers[child], 8);
    put_message(messages, 0x06, link);
  }
}

void put_dataset_messages(ByteBuilder& messages, const Hdf5Tree::Node& node, uint64_t address) {
  put_message(messages, 0x01, encode_shape(node.shape, node.shape.empty()));
  put_message(messages, 0x03, encode_number_type(node.format));
  constexpr uint64_t kAllocateLateFillIfSet = 0x0A;
  ByteBuilder fill;
  put_message(messages, 0x05, fill.put(3, 1).put(kAllocateLateFillIfSet, 1));
  ByteBuilder layout;
  layout.put(3, 1).put(1, 1).put(address, 8).put(element_bytes_of(node), 8);
  put_message(messages, 0x08, layout);
}

ByteBuilder encode_header(const Hdf5Tree& tree, size_t index, const Places& places,
                          const StringHeap& heap) {
  const Hdf5Tree::Node& node = tree.nodes()[index];
  ByteBuilder messages;
  if (node.is_dataset) {
    put_dataset_messages(messages, node, places.elements[index]);
  } else {
    put_group_messages(messages, tree, node, places);
  }
  for (size_t i = 0; i < node.attributes.size(); ++i) {
    const Hdf5Tree::Attribute& attribute = node.attributes[i];
    const EncodedValue value = encode_value(attribute.value, heap, places.strings[index][i]);
    ByteBuilder body;
    body.put(3, 1).put(0, 1).put(attribute.name.size() + 1, 2).put(value.type.size(), 2);
    body.put(value.space.size(), 2).put(1, 1).put_text(attribute.name).put(0, 1);
    body.put_bytes(value.type.bytes()).put_bytes(value.space.bytes());
    put_message(messages, 0x0C, body.put_bytes(value.data.bytes()));
  }
  constexpr uint64_t kSizeOf4Bytes = 2;
  ByteBuilder header;
  header.put_text("OHDR").put(2, 1).put(kSizeOf4Bytes, 1).put(messages.size(), 4);
  header.put_bytes(messages.bytes());
  return header.put(hdf5_lookup3(header.bytes()), 4);
}

ByteBuilder encode_superblock(uint64_t root, uint64_t end) {
  static constexpr unsigned char kSignature[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'};
  ByteBuilder block;
  block.put_bytes(std::as_bytes(std::span(kSignature)));
  block.put(2, 1).put(8, 1).put(8, 1).put(0, 1);
  block.put(0, 8).put(kUndefined, 8).put(end, 8).put(root, 8);
  return block.put(hdf5_lookup3(block.bytes()), 4);
}

int64_t value_bytes(const Hdf5Value& value) {
  const StringHeap heap;
  if (std::holds_alternative<std::string>(value)) return 16;
  return static_cast<int64_t>(encode_value(value, heap, {}).data.size());
}

}  // namespace

Hdf5Tree::Hdf5Tree() { nodes_.emplace_back(); }

size_t Hdf5Tree::find(std::string_view path) const {
  size_t at = 0;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    const std::vector<size_t>& children = nodes_[at].children;
    const auto found = std::find_if(children.begin(), children.end(),
                                    [&](size_t child) { return nodes_[child].name == part; });
    PLIMSOLL_CHECK(found != children.end(),
                   "no object " + std::string(part) + " in this HDF5 tree");
    at = *found;
  }
  return at;
}

size_t Hdf5Tree::find_or_add(std::string_view path) {
  size_t at = 0;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string part(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
    PLIMSOLL_CHECK(!part.empty() && part != "." && part.size() < 60'000,
                   "an HDF5 object needs a name");
    PLIMSOLL_CHECK(!nodes_[at].is_dataset, "a dataset cannot hold " + part);
    const std::vector<size_t>& children = nodes_[at].children;
    const auto found = std::find_if(children.begin(), children.end(),
                                    [&](size_t child) { return nodes_[child].name == part; });
    if (found != children.end()) {
      at = *found;
      continue;
    }
    nodes_.emplace_back();
    nodes_.back().name = part;
    nodes_[at].children.push_back(nodes_.size() - 1);
    at = nodes_.size() - 1;
  }
  return at;
}

void Hdf5Tree::add_group(std::string_view path) {
  PLIMSOLL_CHECK(!nodes_[find_or_add(path)].is_dataset, "a dataset is no group");
}

void Hdf5Tree::add_dataset(std::string_view path, DType dtype, std::span<const int64_t> shape) {
  add_dataset(path, native_format(dtype), shape);
}

void Hdf5Tree::add_dataset(std::string_view path, const NumberFormat& format,
                           std::span<const int64_t> shape) {
  const size_t before = nodes_.size();
  const size_t index = find_or_add(path);
  PLIMSOLL_CHECK(index >= before, "two HDF5 objects named " + std::string(path));
  PLIMSOLL_CHECK(shape.size() <= 32 && std::all_of(shape.begin(), shape.end(),
                                                   [](int64_t extent) { return extent >= 0; }),
                 "a shape that HDF5 does not have");
  Node& node = nodes_[index];
  node.is_dataset = true;
  node.format = format;
  node.shape.assign(shape.begin(), shape.end());
}

void Hdf5Tree::set_attribute(std::string_view path, std::string_view name, Hdf5Value value) {
  PLIMSOLL_CHECK(!name.empty() && name.size() < 4000, "an HDF5 attribute needs a name");
  PLIMSOLL_CHECK(value_bytes(value) <= kMaxHdf5AttributeBytes,
                 "attribute " + std::string(name) + " is larger than HDF5 allows");
  std::vector<Attribute>& attributes = nodes_[find(path)].attributes;
  for (Attribute& attribute : attributes) {
    if (attribute.name != name) continue;
    attribute.value = std::move(value);
    return;
  }
  attributes.push_back({std::string(name), std::move(value)});
}

Hdf5Writer::Hdf5Writer(const Hdf5Tree& tree, ByteSink& sink) : sink_(sink) {
  const std::span<const Hdf5Tree::Node> nodes = tree.nodes();
  StringHeap heap;
  Places places;
  places.headers.resize(nodes.size());
  places.elements.resize(nodes.size(), kUndefined);
  for (const Hdf5Tree::Node& node : nodes) {
    std::vector<HeapPlace>& strings = places.strings.emplace_back(node.attributes.size());
    for (size_t i = 0; i < strings.size(); ++i) {
      const auto* text = std::get_if<std::string>(&node.attributes[i].value);
      if (text != nullptr) strings[i] = heap.add(*text);
    }
  }
  // Sizes do not depend on places, so places follow from a first encoding.
  uint64_t end = kSuperblockBytes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    places.headers[i] = end;
    end += encode_header(tree, i, places, heap).size();
  }
  end = round_to_8(end);
  const uint64_t heap_begin = end;
  end = heap.place(end);
  written_bytes_ = static_cast<int64_t>(end);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].is_dataset || element_bytes_of(nodes[i]) == 0) continue;
    places.elements[i] = end;
    end += element_bytes_of(nodes[i]);
  }
  file_bytes_ = static_cast<int64_t>(end);

  ByteBuilder out = encode_superblock(places.headers[0], end);
  for (size_t i = 0; i < nodes.size(); ++i) {
    out.put_bytes(encode_header(tree, i, places, heap).bytes());
  }
  out.pad_to(static_cast<size_t>(heap_begin));
  heap.write(out);
  sink_.write(out.bytes());
}

void Hdf5Writer::write(std::span<const std::byte> elements) {
  written_bytes_ += static_cast<int64_t>(elements.size());
  PLIMSOLL_CHECK(written_bytes_ <= file_bytes_, "more elements than the HDF5 file was made for");
  sink_.write(elements);
}

void Hdf5Writer::finish() {
  PLIMSOLL_CHECK(written_bytes_ == file_bytes_, "fewer elements than the HDF5 file was made for");
}

}  // namespace plimsoll::codec
