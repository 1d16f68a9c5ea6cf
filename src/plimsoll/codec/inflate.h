#pragma once

// Inflating deflate streams (gzip, zlib, raw) within bounds.
//
// What a stream says of its own size is not believed: output is counted and stops at a bound. The
// working memory is about 170 KiB whatever the size of the stream. Malformed streams give an Error
// of the kind that the caller names (kData for data, kModel for model files).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "codec/byte_reader.h"

namespace plimsoll::codec {

enum class DeflateForm { kGzip, kZlib, kRaw };

struct InflateBounds {
  int64_t max_bytes = INT64_MAX;           // more output than this is refused
  ErrorKind malformed = ErrorKind::kData;  // kind of the error for a bad stream
};

using ByteConsumer = std::function<void(std::span<const std::byte>)>;

// Hands the inflated bytes of all of `source` to `consumer`, in pieces of at most 64 KiB; returns
// their number. Gzip files of several members are read as one; zero padding after them is skipped.
int64_t inflate_stream(const ByteReader& source, DeflateForm form, const InflateBounds& bounds,
                       const ByteConsumer& consumer);

// Inflates into a nameless file in `folder` (see base/spill_folder.h), which takes no memory and is
// gone when the last reader of it is.
std::shared_ptr<const FileReader> inflate_to_file(const ByteReader& source, DeflateForm form,
                                                  const InflateBounds& bounds,
                                                  const std::string& folder);

// Inflates one block in memory; returns the number of bytes, at most destination.size(). False
// streams and larger outputs give -1.
int64_t inflate_block(std::span<const std::byte> source, DeflateForm form,
                      std::span<std::byte> destination);

bool looks_like_gzip(const ByteReader& source);

// CRC-32 as zip and gzip use it; start with 0.
uint32_t update_crc32(uint32_t crc, std::span<const std::byte> bytes);

}  // namespace plimsoll::codec
