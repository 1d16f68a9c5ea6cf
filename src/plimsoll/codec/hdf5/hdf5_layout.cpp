// Layout, filter and fill value messages.

#include <algorithm>

#include "codec/hdf5/hdf5_object.h"

namespace plimsoll::codec {
namespace {

constexpr int kCompact = 0;
constexpr int kContiguous = 1;
constexpr int kChunked = 2;
constexpr uint64_t kMaxRank = 32;

std::vector<int64_t> take_chunk(const Hdf5Source& source, ByteCursor& cursor, size_t rank) {
  std::vector<int64_t> chunk;
  for (size_t i = 0; i < rank; ++i) {
    const uint64_t extent = cursor.take(4);
    if (extent == 0) source.refuse("chunks of no extent");
    chunk.push_back(static_cast<int64_t>(extent));
  }
  return chunk;
}

// Versions 1 and 2: the dimensions stand in the message for every class.
Hdf5Layout parse_old(const Hdf5Source& source, ByteCursor& cursor, size_t rank) {
  const uint64_t dimensions = cursor.take(1);
  const auto layout_class = static_cast<int>(cursor.take(1));
  cursor.skip(5);
  if (dimensions > kMaxRank + 1) source.refuse("a layout of too many dimensions");
  Hdf5Layout layout;
  if (layout_class != kCompact) layout.address = cursor.take(source.address_width());
  if (layout_class == kChunked) {
    if (dimensions != rank + 1) source.refuse("chunks of another rank than their array");
    layout.layout_class = Hdf5Layout::Class::kChunked;
    layout.chunk = take_chunk(source, cursor, rank);
    return layout;
  }
  cursor.skip(4 * dimensions);
  if (layout_class == kCompact) {
    layout.layout_class = Hdf5Layout::Class::kCompact;
    const std::span<const std::byte> body = cursor.take_bytes(cursor.take(4));
    layout.compact.assign(body.begin(), body.end());
  } else if (layout_class != kContiguous) {
    source.refuse("a layout of an unknown class");
  }
  return layout;
}

Hdf5Layout parse_new(const Hdf5Source& source, ByteCursor& cursor, uint64_t version, size_t rank) {
  Hdf5Layout layout;
  switch (static_cast<int>(cursor.take(1))) {
    case kCompact: {
      layout.layout_class = Hdf5Layout::Class::kCompact;
      const std::span<const std::byte> body = cursor.take_bytes(cursor.take(2));
      layout.compact.assign(body.begin(), body.end());
      return layout;
    }
    case kContiguous:
      layout.address = cursor.take(source.address_width());
      layout.bytes = cursor.take(source.length_width());
      return layout;
    case kChunked:
      break;
    default:
      source.refuse_unsupported("a virtual or unknown layout");
  }
  if (version == 4) {
    source.refuse_unsupported("chunks with a new kind of index");
  }
  layout.layout_class = Hdf5Layout::Class::kChunked;
  if (cursor.take(1) != rank + 1) source.refuse("chunks of another rank than their array");
  layout.address = cursor.take(source.address_width());
  layout.chunk = take_chunk(source, cursor, rank);
  return layout;
}

}  // namespace

Hdf5Layout parse_hdf5_layout(const Hdf5Source& source, std::span<const std::byte> body,
                             size_t rank) {
  ByteCursor cursor(body, source.fail());
  const uint64_t version = cursor.take(1);
  if (version == 1 || version == 2) return parse_old(source, cursor, rank);
  if (version == 3 || version == 4) return parse_new(source, cursor, version, rank);
  source.refuse("a layout of an unknown version");
}

std::vector<Hdf5Filter> parse_hdf5_filters(const Hdf5Source& source,
                                           std::span<const std::byte> body) {
  constexpr uint64_t kMaxFilters = 32;  // HDF5's own
  constexpr uint64_t kFirstNamed = 256;
  ByteCursor cursor(body, source.fail());
  const uint64_t version = cursor.take(1);
  const uint64_t count = cursor.take(1);
  if ((version != 1 && version != 2) || count > kMaxFilters) {
    source.refuse("a list of filters of an unknown kind");
  }
  if (version == 1) cursor.skip(6);
  std::vector<Hdf5Filter> filters;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t id = cursor.take(2);
    uint64_t name_bytes = version == 1 || id >= kFirstNamed ? cursor.take(2) : 0;
    cursor.skip(2);
    const uint64_t values = cursor.take(2);
    if (version == 1) name_bytes = (name_bytes + 7) / 8 * 8;
    cursor.skip(name_bytes + 4 * values);
    if (version == 1 && values % 2 == 1) cursor.skip(4);
    filters.push_back({static_cast<int>(id)});
  }
  return filters;
}

std::vector<std::byte> read_hdf5_fill_value(const Hdf5Source& source, const Hdf5Object& object) {
  uint64_t size = 0;
  const auto take_value = [&](ByteCursor& cursor) {
    size = cursor.take(4);
    const std::span<const std::byte> value = cursor.take_bytes(size);
    return std::vector<std::byte>(value.begin(), value.end());
  };
  if (const Hdf5Message* message = object.find(kHdf5FillValue)) {
    if (message->shared) source.refuse_unsupported("a shared fill value");
    ByteCursor cursor(message->body, source.fail());
    const uint64_t version = cursor.take(1);
    if (version == 1 || version == 2) {
      cursor.skip(2);
      const bool defined = cursor.take(1) != 0;
      return defined || version == 1 ? take_value(cursor) : std::vector<std::byte>{};
    }
    if (version != 3) source.refuse("a fill value of an unknown version");
    const uint64_t flags = cursor.take(1);
    return (flags & 0x20) != 0 ? take_value(cursor) : std::vector<std::byte>{};
  }
  if (const Hdf5Message* message = object.find(kHdf5OldFillValue)) {
    ByteCursor cursor(message->body, source.fail());
    return take_value(cursor);
  }
  return {};
}

}  // namespace plimsoll::codec
