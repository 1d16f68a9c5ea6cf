#include "codec/hdf5/hdf5_strings.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "codec/hdf5/hdf5_object.h"

namespace plimsoll::codec {
namespace {

constexpr uint64_t kMaxHeapObjects = 65536;     // an index has 16 bits
constexpr uint64_t kMaxHeapBytes = 4 << 20;     // of a collection; a text has at most 1 MiB
constexpr uint64_t kMaxHeapReads = 1ull << 30;  // bytes, for one list of strings
constexpr uint64_t kMaxFileReads = 32;          // times the file, where that is more

std::string_view before_zero(std::string_view text) { return text.substr(0, text.find('\0')); }

}  // namespace

std::string_view Hdf5Strings::next(ByteCursor& elements) {
  if (type_.type_class == Hdf5Type::Class::kFixedString) {
    const auto bytes = elements.take_bytes(static_cast<uint64_t>(type_.bytes));
    return fixed({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  const uint64_t length = elements.take(4);
  const uint64_t address = elements.take(source_.address_width());
  const uint64_t index = elements.take(4);
  return length > 0 ? before_zero(find(address, index, length)) : std::string_view();
}

// As HDF5's library takes padding off, and NumPy what is left of it.
std::string_view Hdf5Strings::fixed(std::string_view padded) const {
  if (type_.padding == Hdf5Type::Padding::kZeroEnds) return before_zero(padded);
  const char pad = type_.padding == Hdf5Type::Padding::kBlanks ? ' ' : '\0';
  return padded.substr(0, padded.find_last_not_of(pad) + 1);
}

// The object's bytes, `length` of them.
std::string_view Hdf5Strings::find(uint64_t address, uint64_t index, uint64_t length) {
  if (!loaded_ || address_ != address) load(address);
  const auto found = std::ranges::lower_bound(objects_, index, {}, &HeapObject::index);
  if (found == objects_.end() || found->index != index || found->bytes < length) {
    source_.refuse("a text that is not in the heap where it should be");
  }
  return {reinterpret_cast<const char*>(collection_.data()) + found->position,
          static_cast<size_t>(length)};
}

void Hdf5Strings::load(uint64_t address) {
  loaded_ = false;
  const uint64_t header_bytes = 8 + source_.length_width();
  const std::vector<std::byte> header = source_.read(address, header_bytes);
  ByteCursor start(header, source_.fail());
  if (start.take_text(4) != "GCOL") source_.refuse("no heap where one should be");
  start.skip(4);
  const uint64_t bytes = start.take(source_.length_width());
  if (bytes < header_bytes) source_.refuse("a heap of an impossible size");
  if (bytes > kMaxHeapBytes) {
    source_.refuse(fmt::format("a heap of {} bytes, where {} are read", bytes, kMaxHeapBytes));
  }
  source_.check_range(address, bytes);
  read_bytes_ += bytes;
  if (read_bytes_ > std::max(kMaxHeapReads, kMaxFileReads * source_.bytes_after(0))) {
    source_.refuse("texts scattered over too many heaps");
  }
  collection_ = {};
  objects_ = {};
  collection_ = source_.read(address, bytes);
  ByteCursor cursor(collection_, source_.fail());
  cursor.skip(header_bytes);
  const uint64_t object_header = 8 + source_.length_width();
  for (uint64_t i = 0; i < kMaxHeapObjects && cursor.left() >= object_header; ++i) {
    HeapObject object;
    object.index = cursor.take(2);
    cursor.skip(6);
    object.bytes = cursor.take(source_.length_width());
    if (object.index == 0) break;  // free space up to the end
    object.position = cursor.position();
    cursor.skip(object.bytes);
    cursor.align(8);
    objects_.push_back(object);
  }
  std::ranges::stable_sort(objects_, {}, &HeapObject::index);
  const size_t held = collection_.capacity() + 2 * objects_.capacity() * sizeof(HeapObject);
  peak_bytes_ = std::max(peak_bytes_, static_cast<int64_t>(held));
  address_ = address;
  loaded_ = true;
}

std::vector<std::string> decode_hdf5_strings(const Hdf5Source& source, const Hdf5Type& type,
                                             std::span<const std::byte> raw, int64_t count,
                                             int64_t max_bytes, int64_t held_bytes) {
  std::vector<std::string> texts;
  Hdf5Strings strings(source, type);
  ByteCursor cursor(raw, source.fail());
  int64_t total = held_bytes;
  for (int64_t i = 0; i < count; ++i) {
    std::string text(strings.next(cursor));
    total += static_cast<int64_t>(text.size() + sizeof(std::string));
    if (total > max_bytes) source.refuse(fmt::format("texts of more than {} bytes", max_bytes));
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace plimsoll::codec
