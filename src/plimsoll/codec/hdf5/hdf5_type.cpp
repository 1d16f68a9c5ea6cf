// Datatype messages.

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "codec/hdf5/hdf5_object.h"

namespace plimsoll::codec {
namespace {

constexpr int kMaxTypeDepth = 8;
constexpr uint64_t kArrayClass = 10;
constexpr size_t kMaxNameBytes = 4096;
constexpr uint64_t kMaxElementBytes = 1 << 20;

using Kind = NumberFormat::Kind;

Hdf5Type other(std::string described, int64_t bytes) {
  Hdf5Type type;
  type.described = std::move(described);
  type.bytes = bytes;
  return type;
}

Hdf5Type number(Kind kind, int64_t bytes, bool big_endian) {
  Hdf5Type type;
  type.type_class = Hdf5Type::Class::kNumber;
  type.number = {kind, static_cast<int>(bytes), big_endian && bytes > 1};
  type.bytes = bytes;
  return type;
}

Hdf5Type parse_integer(ByteCursor& cursor, uint64_t bits, int64_t bytes) {
  const uint64_t bit_offset = cursor.take(2);
  const uint64_t precision = cursor.take(2);
  const bool plain = bit_offset == 0 && precision == static_cast<uint64_t>(8 * bytes) &&
                     (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  if (!plain) return other(fmt::format("integers of {} bits", precision), bytes);
  return number((bits & 8) != 0 ? Kind::kSigned : Kind::kUnsigned, bytes, (bits & 1) != 0);
}

Hdf5Type parse_float(ByteCursor& cursor, uint64_t bits, int64_t bytes) {
  struct Layout {
    uint64_t bytes, sign, exponent_at, exponent_bits, mantissa_bits, bias;
    Kind kind;
  };
  static constexpr Layout kLayouts[] = {{2, 15, 10, 5, 10, 15, Kind::kFloat},
                                        {2, 15, 7, 8, 7, 127, Kind::kBFloat},
                                        {4, 31, 23, 8, 23, 127, Kind::kFloat},
                                        {8, 63, 52, 11, 52, 1023, Kind::kFloat}};
  const uint64_t bit_offset = cursor.take(2);
  cursor.skip(2);
  const uint64_t exponent_at = cursor.take(1);
  const uint64_t exponent_bits = cursor.take(1);
  const uint64_t mantissa_at = cursor.take(1);
  const uint64_t mantissa_bits = cursor.take(1);
  const uint64_t bias = cursor.take(4);
  const uint64_t sign = (bits >> 8) & 0xFF;
  const bool vax = (bits & 0x40) != 0;
  for (const Layout& layout : kLayouts) {
    const bool same = layout.bytes == static_cast<uint64_t>(bytes) && layout.sign == sign &&
                      layout.exponent_at == exponent_at && layout.exponent_bits == exponent_bits &&
                      layout.mantissa_bits == mantissa_bits && layout.bias == bias;
    if (same && bit_offset == 0 && mantissa_at == 0 && !vax) {
      return number(layout.kind, bytes, (bits & 1) != 0);
    }
  }
  return other("floating-point numbers of an unusual layout", bytes);
}

// PyTables keeps truth in a byte of bits.
Hdf5Type parse_bits(ByteCursor& cursor, int64_t bytes) {
  const uint64_t bit_offset = cursor.take(2);
  const uint64_t precision = cursor.take(2);
  if (bit_offset != 0 || precision != 8 || bytes != 1) return other("bits", bytes);
  return number(Kind::kUnsigned, bytes, false);
}

Hdf5Type parse_type(const Hdf5Source& source, ByteCursor& cursor, int depth);

// Where a type ends is known of these alone; fields after another one are not found.
bool has_known_end(uint64_t type_class) {
  return type_class == 0 || type_class == 1 || type_class == 3 || type_class == 4 ||
         type_class == 8;
}

Hdf5Type::Padding padding_of(uint64_t bits) {
  return bits == 1   ? Hdf5Type::Padding::kZeros
         : bits == 2 ? Hdf5Type::Padding::kBlanks
                     : Hdf5Type::Padding::kZeroEnds;
}

uint64_t first_byte(ByteCursor cursor) { return cursor.take(1); }

// A text that a zero ends, padded to a multiple of eight before version 3.
std::string take_name(const Hdf5Source& source, ByteCursor& cursor, uint64_t version) {
  std::string name;
  uint64_t taken = 1;
  for (uint64_t byte = cursor.take(1); byte != 0; byte = cursor.take(1), ++taken) {
    if (name.size() == kMaxNameBytes) source.refuse("a field's name without an end");
    name += static_cast<char>(byte);
  }
  if (version < 3) cursor.skip((8 - taken % 8) % 8);
  return name;
}

// Skips an enumeration's names and values, which come after its base.
void skip_enumeration(const Hdf5Source& source, ByteCursor& cursor, uint64_t version, uint64_t bits,
                      int64_t bytes) {
  const uint64_t count = bits & 0xFFFF;
  for (uint64_t i = 0; i < count; ++i) take_name(source, cursor, version);
  cursor.skip(count * static_cast<uint64_t>(bytes));
}

// The product of an array type's extents, in front of its base.
int64_t take_array_count(const Hdf5Source& source, ByteCursor& cursor, uint64_t version) {
  const uint64_t rank = cursor.take(1);
  if (version < 3) cursor.skip(3);
  uint64_t count = 1;
  for (uint64_t i = 0; i < rank; ++i) {
    count *= std::max<uint64_t>(cursor.take(4), 1);
    if (count > kMaxElementBytes) source.refuse("an array of too many elements as an element");
  }
  if (version < 3) cursor.skip(4 * rank);  // the order of its axes
  return static_cast<int64_t>(count);
}

// Fields of a compound type; none where one of them is not known.
std::vector<Hdf5Member> take_members(const Hdf5Source& source, ByteCursor& cursor, uint64_t version,
                                     uint64_t count, int64_t bytes, int depth) {
  std::vector<Hdf5Member> members;
  int64_t used = 0;
  for (uint64_t i = 0; i < count; ++i) {
    Hdf5Member member;
    member.name = take_name(source, cursor, version);
    int width = 4;
    if (version >= 3) {
      for (width = 1; bytes >> (8 * width) != 0; ++width) {
      }
    }
    member.offset = static_cast<int64_t>(cursor.take(static_cast<uint64_t>(width)));
    if (version == 1) {
      if (cursor.take(1) != 0) return {};  // an array in the oldest way
      cursor.skip(27);
    }
    uint64_t first = first_byte(cursor);
    if ((first & 15) == kArrayClass) {
      cursor.skip(8);
      member.count = take_array_count(source, cursor, first >> 4);
      first = first_byte(cursor);
    }
    if (!has_known_end(first & 15)) return {};
    const Hdf5Type type = parse_type(source, cursor, depth + 1);
    if (member.offset + member.count * type.bytes > bytes)
      source.refuse("a field that passes the end of its record");
    used += member.count * type.bytes;
    if (used > bytes) source.refuse("fields that take more bytes than their record has");
    member.is_number = type.type_class == Hdf5Type::Class::kNumber;
    if (member.is_number) member.number = type.number;
    members.push_back(std::move(member));
  }
  return members;
}

Hdf5Type parse_type(const Hdf5Source& source, ByteCursor& cursor, int depth) {
  if (depth > kMaxTypeDepth) source.refuse("a type inside a type without an end");
  const uint64_t class_and_version = cursor.take(1);
  const uint64_t bits = cursor.take(3);
  const uint64_t size = cursor.take(4);
  if (size > kMaxElementBytes) {
    source.refuse(fmt::format("elements of {} bytes each", size));
  }
  const auto bytes = static_cast<int64_t>(size);
  Hdf5Type type;
  switch (class_and_version & 15) {
    case 0:
      return parse_integer(cursor, bits, bytes);
    case 1:
      return parse_float(cursor, bits, bytes);
    case 3:
      if (bytes == 0) source.refuse("texts of no length");
      type.type_class = Hdf5Type::Class::kFixedString;
      type.padding = padding_of(bits & 15);
      type.bytes = bytes;
      return type;
    case 4:
      return parse_bits(cursor, bytes);
    case 5:
      return other("opaque bytes", bytes);
    case 6:
      type = other("a compound type", bytes);
      type.members =
          take_members(source, cursor, class_and_version >> 4, bits & 0xFFFF, bytes, depth);
      return type;
    case 7:
      return other("references", bytes);
    case 8: {
      // h5py stores booleans as an enumeration over int8 with FALSE and TRUE.
      type = parse_type(source, cursor, depth + 1);
      if (type.type_class != Hdf5Type::Class::kNumber) return other("an enumeration", bytes);
      if (depth > 0) skip_enumeration(source, cursor, class_and_version >> 4, bits, type.bytes);
      if ((bits & 0xFFFF) == 2 && type.bytes == 1) type.number.kind = Kind::kBool;
      return type;
    }
    case 9:
      if ((bits & 15) != 1) return other("lists of different lengths", bytes);
      if (size != 8 + source.address_width()) {
        source.refuse("a variable-length string of an impossible size");
      }
      type.type_class = Hdf5Type::Class::kVariableString;
      type.bytes = bytes;
      return type;
    case kArrayClass:
      return other("arrays as elements", bytes);
    default:
      return other("an unusual element type", bytes);
  }
}

}  // namespace

Hdf5Type parse_hdf5_type(const Hdf5Source& source, std::span<const std::byte> body) {
  ByteCursor cursor(body, source.fail());
  return parse_type(source, cursor, 0);
}

}  // namespace plimsoll::codec
