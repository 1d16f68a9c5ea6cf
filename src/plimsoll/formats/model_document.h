#pragma once

// The structure of a model as the file says it, before anything is understood.

#include <string>

#include "layers/config/config.h"

namespace plimsoll::formats {

// The JSON of a .json, .keras or whole .h5 file. Throws kModel for files that hold none.
layers::Config read_document(const std::string& path);

}  // namespace plimsoll::formats
