#pragma once

// Whether a file that is written at the end can be written there at all, asked at the start: work
// whose result has no place is not begun.

#include <string>

namespace plimsoll {

// Throws kIo where the folder of `path` is none or may not be written to, or `path` is a folder.
void check_place(const std::string& path);

}  // namespace plimsoll
