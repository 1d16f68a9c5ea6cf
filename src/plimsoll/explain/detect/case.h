#pragma once

// One failure, put together from all findings of it: what the rules of cause.h, when.h and
// advice.h look at. Building it decides which finding is explained and fills its gaps from the
// others; it concludes nothing.

#include <optional>
#include <string>
#include <vector>

#include "explain/detect/facts.h"
#include "explain/read/code_line.h"
#include "explain/read/document.h"

namespace plimsoll::explain {

// Refusals of one kind in a row, each of less than the one before: somebody tried what would fit.
struct SmallerTries {
  int64_t first = 0, last = 0;  // bytes
  int sizes = 0;
  size_t last_at = 0;
};

struct Case {
  const Document& document;
  const Facts& facts;
  bool found = false;
  bool survived = false;  // the program's own progress goes on after the last refusal
  Finding main{};
  std::optional<Finding> overcome{};     // a refusal before it, after which the program went on
  Pool pool{};                           // the dump that belongs to it; `seen` is false without one
  std::optional<CodeLine> code{};        // of the traceback above it
  const Traceback* traceback = nullptr;  // that it belongs to
  std::string framework{};
  std::string dtype{};  // printed, or of the node
  std::optional<int64_t> shape_bytes{};
  std::optional<int64_t> request{};     // bytes, or the shape's
  std::optional<SmallerTries> tries{};  // that the main refusal belongs to
  bool weights = false;                 // the tensor has no batch in it
  std::optional<int64_t> batch{};       // a dimension that may be the batch
  std::string model = "MODEL";          // its file, as a word of a command

  // The least that was refused: the request, or the last of smaller tries.
  std::optional<int64_t> least() const { return tries ? tries->last : request; }
  bool has(Family family) const;
  const Finding* first(Family family) const;
  // The code line's text, "" without one.
  std::string code_text() const;
};

Case build_case(const Document& document, const Facts& facts);

// Bytes of one element: TensorFlow's, numpy's and XLA's names; nothing for an unknown one.
std::optional<int64_t> element_bytes(std::string_view dtype);
// Whether it is a type's name, whole.
inline bool is_type_name(std::string_view name) { return element_bytes(name).has_value(); }
// Product of the dimensions times element size; nothing on overflow.
std::optional<int64_t> tensor_bytes(const std::vector<int64_t>& shape, std::string_view dtype);

}  // namespace plimsoll::explain
