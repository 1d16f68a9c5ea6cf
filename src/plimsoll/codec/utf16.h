#pragma once

// Text in UTF-16, as Windows' programs write it, turned into UTF-8.
//
// Only what begins with a byte order mark is known to be UTF-16. It is read a piece at a time, of
// whatever size it is.

#include <memory>
#include <string>

#include "codec/byte_reader.h"

namespace plimsoll::codec {

// Whether the file begins with UTF-16's byte order mark, of either order.
bool has_utf16_mark(const ByteReader& file);

// The text without its mark, in a nameless file in `folder` (see base/spill_folder.h) that is
// called as `file` is. Half of a character is kData, with its place.
std::shared_ptr<const FileReader> utf16_to_file(const ByteReader& file, const std::string& folder);

}  // namespace plimsoll::codec
