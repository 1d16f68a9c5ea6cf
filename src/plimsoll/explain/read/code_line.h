#pragma once

// The source line that a traceback prints above its error, and the call in it that allocates.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "explain/read/document.h"

namespace plimsoll::explain {

struct CodeLine {
  size_t at = 0;
  std::string op;                             // "log_softmax", "os.fork", "np.ndarray"
  std::optional<std::vector<int64_t>> shape;  // of a numpy constructor with literal dimensions
  std::string dtype;
};

// The code line above the message at `at`, or nothing when what stands there is no code.
std::optional<CodeLine> code_above(const Document& document, size_t at);

}  // namespace plimsoll::explain
