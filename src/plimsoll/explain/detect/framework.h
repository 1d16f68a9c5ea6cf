#pragma once

// Which framework a failure is of: by the module of the exception that stands nearest to it, then
// by the files and settings that the log names. XLA's and the driver's lines look the same in
// TensorFlow and JAX, and Keras runs on three of them.

#include <string>

#include "explain/detect/facts.h"
#include "explain/read/document.h"

namespace plimsoll::explain {

std::string framework_of(const Document& document, const Facts& facts, const Finding& main);

}  // namespace plimsoll::explain
