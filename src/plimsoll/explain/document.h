#pragma once

// The kept part of a log as clean text, with the line number of every byte.
//
// Cleaning removes what is not text: terminal sequences (whole or with the ESC lost), control and
// bidirectional characters, invalid UTF-8, HTML escapes, full-width punctuation, runs of blanks. A
// break that may have been put into the middle of a message (a hard wrap, a run of blanks inside a
// word) becomes kSoftBreak; the readers of cursor.h look through it. Any other line end is '\n', a
// place where lines were left out is two of them.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "explain/excerpt.h"

namespace plimsoll::explain {

constexpr char kSoftBreak = '\x01';

// One physical line (or what a carriage return left of it), cleaned. Holds no '\n'. What others put
// in front of every line (quotation marks, ranks, actors, containers, their timestamps) is taken
// off.
std::string clean_line(std::string_view raw);

// True when `line` starts like the beginning of a log record rather than the rest of a wrapped one.
bool starts_record(std::string_view line);

class Document {
 public:
  explicit Document(std::span<const KeptSegment> segments);

  const std::string& text() const { return text_; }
  size_t line_count() const { return starts_.size(); }
  size_t line_index(size_t offset) const;
  int64_t number(size_t index) const { return numbers_[index]; }
  // Without the break at its end.
  std::string_view line(size_t index) const;
  size_t start(size_t index) const { return starts_[index]; }
  int64_t number_at(size_t offset) const;

  // The line around `offset` for quoting, soft breaks as blanks, at most 220 characters.
  std::string quote(size_t offset) const;

  // Position of the lower-case `phrase` in [from, to), seen through soft breaks, or npos.
  size_t find(std::string_view phrase, size_t from = 0, size_t to = std::string::npos) const;
  // The last one before `before`, or npos; looks back `reach` bytes at most.
  size_t find_back(std::string_view phrase, size_t before, size_t reach) const;
  // End of the match of `phrase` at `at`, or npos. A blank in `phrase` stands for any white space.
  size_t match(std::string_view phrase, size_t at) const;
  // First position of a hard line end at or after `at`, and first position behind one before `at`.
  size_t record_end(size_t at) const;
  size_t record_start(size_t at) const;

 private:
  void append(const KeptSegment& segment, std::string_view part, bool continues);

  std::string text_;
  std::vector<size_t> starts_;
  std::vector<int64_t> numbers_;
};

}  // namespace plimsoll::explain
