// Attribute messages.

#include <utility>

#include "codec/hdf5/hdf5_object.h"

namespace plimsoll::codec {
namespace {

constexpr int64_t kMaxTextBytes = 64 << 20;  // of all attributes of an object

int64_t text_bytes(const Hdf5Attribute& attribute) {
  size_t bytes = 0;
  for (const std::string& text : attribute.strings) bytes += text.size() + sizeof(std::string);
  return static_cast<int64_t>(bytes);
}

// An attribute's text may be that of others too: `held_bytes` are theirs.
Hdf5Attribute parse_attribute(const Hdf5Source& source, std::span<const std::byte> body,
                              int64_t held_bytes) {
  ByteCursor cursor(body, source.fail());
  const uint64_t version = cursor.take(1);
  if (version < 1 || version > 3) source.refuse("an attribute of an unknown version");
  const uint64_t flags = cursor.take(1);
  if (version >= 2 && (flags & 3) != 0) {
    source.refuse_unsupported("an attribute with a shared type");
  }
  const uint64_t name_bytes = cursor.take(2);
  const uint64_t type_bytes = cursor.take(2);
  const uint64_t space_bytes = cursor.take(2);
  if (version == 3) cursor.skip(1);  // encoding of the name
  // Version 1 pads each of the three parts to eight bytes; its own header is eight bytes long.
  const auto take_part = [&](uint64_t count) {
    const std::span<const std::byte> part = cursor.take_bytes(count);
    if (version == 1) cursor.align(8);
    return part;
  };
  Hdf5Attribute attribute;
  const std::span<const std::byte> name = take_part(name_bytes);
  attribute.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  attribute.name.resize(std::min(attribute.name.find('\0'), attribute.name.size()));
  attribute.type = parse_hdf5_type(source, take_part(type_bytes));
  attribute.shape = parse_hdf5_shape(source, take_part(space_bytes));
  const int64_t count = count_hdf5_elements(source, attribute.shape);
  const int64_t element = attribute.type.bytes;
  if (element <= 0 && count > 0) source.refuse("an attribute of empty elements");
  if (count > 0 && count > static_cast<int64_t>(cursor.left()) / element) {
    source.refuse("an attribute \"" + attribute.name.substr(0, 80) + "\" that is cut short");
  }
  const std::span<const std::byte> raw = cursor.take_bytes(static_cast<uint64_t>(count * element));
  switch (attribute.type.type_class) {
    case Hdf5Type::Class::kNumber:
      attribute.raw.assign(raw.begin(), raw.end());
      break;
    case Hdf5Type::Class::kFixedString:
    case Hdf5Type::Class::kVariableString:
      attribute.strings =
          decode_hdf5_strings(source, attribute.type, raw, count, kMaxTextBytes, held_bytes);
      break;
    case Hdf5Type::Class::kOther:
      break;
  }
  return attribute;
}

// Attributes outside of the header would be missing in silence: they are refused.
void check_not_dense(const Hdf5Source& source, const Hdf5Message& info) {
  ByteCursor cursor(info.body, source.fail());
  cursor.skip(1);
  const uint64_t flags = cursor.take(1);
  if ((flags & 1) != 0) cursor.skip(2);
  if (!source.is_undefined(cursor.take(source.address_width()))) {
    source.refuse_unsupported("attributes in a fractal heap");
  }
}

}  // namespace

std::vector<Hdf5Attribute> read_hdf5_attributes(const Hdf5Source& source,
                                                const Hdf5Object& object) {
  std::vector<Hdf5Attribute> attributes;
  int64_t held_bytes = 0;
  for (const Hdf5Message& message : object.messages) {
    if (message.type == kHdf5AttributeInfo) check_not_dense(source, message);
    if (message.type != kHdf5AttributeMessage) continue;
    if (message.shared) source.refuse_unsupported("a shared attribute");
    attributes.push_back(parse_attribute(source, message.body, held_bytes));
    held_bytes += text_bytes(attributes.back());
  }
  return attributes;
}

}  // namespace plimsoll::codec
