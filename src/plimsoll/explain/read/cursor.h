#pragma once

// Reading messages from a Document: a position that moves over literals, numbers, sizes and shapes,
// looking through soft breaks and accepting what wraps and translations do to a message.
//
// A reader that finds nothing leaves the position alone and returns nothing; nothing throws.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "explain/read/document.h"

namespace plimsoll::explain {

struct Size {
  int64_t bytes = 0;
  bool exact = false;  // printed in bytes
  std::string text;    // as printed; "" when printed in bytes
};

class Cursor {
 public:
  Cursor(const Document& document, size_t at) : document_(&document), at_(at) {}

  size_t at() const { return at_; }
  void move_to(size_t at) { at_ = at; }
  bool at_end() const { return at_ >= document_->text().size(); }
  char peek();  // next character that is no soft break, '\0' at the end

  void skip_blanks();
  // Steps over `phrase` (lower case) if it is here.
  bool literal(std::string_view phrase);
  // Goes after the next `phrase` before the end of the record, `reach` bytes ahead at most.
  bool seek(std::string_view phrase, size_t reach = 4096);

  std::optional<int64_t> integer();
  // The same where something follows in every message: none where the log ends after its digits,
  // as there may have been more of them.
  std::optional<int64_t> inner_integer();
  // A number with a unit; blanks between them are allowed. "4⏎0.30 GiB" is 40.30 GiB.
  std::optional<Size> size();
  // "[3,3,512]", "(172928, 32001)", "[]"; nothing when cut or when a part is no number.
  std::optional<std::vector<int64_t>> shape();
  // Characters up to one of `stops`, a blank in it meaning any white space; soft breaks left out.
  std::string until(std::string_view stops, size_t longest = 400);
  // The same for a word at the end of a message: stops at a soft break too, unless what stands
  // there is wrapped for certain (`is_whole` says no to the part before the break).
  std::string word(std::string_view stops, bool (*is_whole)(std::string_view) = nullptr);

 private:
  const Document* document_;
  size_t at_;
};

}  // namespace plimsoll::explain
