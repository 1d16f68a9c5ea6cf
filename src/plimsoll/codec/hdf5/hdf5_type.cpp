// Datatype messages and the strings that they describe.

#include <algorithm>
#include <map>
#include <utility>

#include "base/format.h"
#include "codec/hdf5/hdf5_object.h"

namespace plimsoll::codec {
namespace {

constexpr int kMaxTypeDepth = 8;
constexpr uint64_t kArrayClass = 10;
constexpr size_t kMaxNameBytes = 4096;
constexpr uint64_t kMaxElementBytes = 1 << 20;
constexpr uint64_t kMaxHeapObjects = 65536;     // an index has 16 bits
constexpr uint64_t kMaxHeapReads = 1ull << 30;  // bytes, for one list of strings

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

// Collections of the global heap, where variable-length strings are kept.
class GlobalHeap {
 public:
  explicit GlobalHeap(const Hdf5Source& source) : source_(source) {}

  // The object's bytes, at least `length` of them.
  std::string_view find(uint64_t address, uint64_t index, uint64_t length) {
    const Collection& collection = load(address);
    const auto found = collection.objects.find(index);
    if (found == collection.objects.end() || found->second.second < length) {
      source_.refuse("a text that is not in the heap where it should be");
    }
    return std::string_view(
        reinterpret_cast<const char*>(collection.bytes.data()) + found->second.first,
        static_cast<size_t>(length));
  }

 private:
  struct Collection {
    std::vector<std::byte> bytes;
    std::map<uint64_t, std::pair<size_t, uint64_t>> objects;  // index → position, size
  };

  // Only the last collection is kept: the strings of one list lie together.
  const Collection& load(uint64_t address) {
    if (loaded_ && address_ == address) return collection_;
    const uint64_t header_bytes = 8 + source_.length_width();
    const std::vector<std::byte> header = source_.read(address, header_bytes);
    ByteCursor start(header, source_.fail());
    if (start.take_text(4) != "GCOL") source_.refuse("no heap where one should be");
    start.skip(4);
    const uint64_t bytes = start.take(source_.length_width());
    if (bytes < header_bytes) source_.refuse("a heap of an impossible size");
    read_bytes_ += bytes;
    if (read_bytes_ > kMaxHeapReads) source_.refuse("texts scattered over too many heaps");
    collection_ = {};
    collection_.bytes = source_.read(address, bytes);
    ByteCursor cursor(collection_.bytes, source_.fail());
    cursor.skip(header_bytes);
    const uint64_t object_header = 8 + source_.length_width();
    for (uint64_t i = 0; i < kMaxHeapObjects && cursor.left() >= object_header; ++i) {
      const uint64_t index = cursor.take(2);
      cursor.skip(6);
      const uint64_t size = cursor.take(source_.length_width());
      if (index == 0) break;  // free space up to the end
      const size_t position = cursor.position();
      cursor.skip(size);
      cursor.align(8);
      collection_.objects[index] = {position, size};
    }
    address_ = address;
    loaded_ = true;
    return collection_;
  }

  const Hdf5Source& source_;
  bool loaded_ = false;
  uint64_t address_ = 0;
  uint64_t read_bytes_ = 0;
  Collection collection_;
};

std::string trim_fixed(std::string text) {
  // Padded by zeros (or ended by one); by blanks only in Fortran's files, where they are kept.
  const size_t end = text.find('\0');
  if (end != std::string::npos) text.resize(end);
  return text;
}

}  // namespace

Hdf5Type parse_hdf5_type(const Hdf5Source& source, std::span<const std::byte> body) {
  ByteCursor cursor(body, source.fail());
  return parse_type(source, cursor, 0);
}

std::vector<std::string> decode_hdf5_strings(const Hdf5Source& source, const Hdf5Type& type,
                                             std::span<const std::byte> raw, int64_t count,
                                             int64_t max_bytes, int64_t held_bytes) {
  std::vector<std::string> strings;
  GlobalHeap heap(source);
  ByteCursor cursor(raw, source.fail());
  int64_t total = held_bytes;
  for (int64_t i = 0; i < count; ++i) {
    std::string text;
    if (type.type_class == Hdf5Type::Class::kFixedString) {
      text = trim_fixed(cursor.take_text(static_cast<uint64_t>(type.bytes)));
    } else {
      const uint64_t length = cursor.take(4);
      const uint64_t address = cursor.take(source.address_width());
      const uint64_t index = cursor.take(4);
      if (length > 0) text = trim_fixed(std::string(heap.find(address, index, length)));
    }
    total += static_cast<int64_t>(text.size() + sizeof(std::string));
    if (total > max_bytes) {
      source.refuse(fmt::format("texts of more than {} bytes", max_bytes));
    }
    strings.push_back(std::move(text));
  }
  return strings;
}

}  // namespace plimsoll::codec
