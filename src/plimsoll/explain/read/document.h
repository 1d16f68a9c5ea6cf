#pragma once

// The kept part of a log as clean text, with the line number of every byte.
//
// Cleaning removes what is not text: terminal sequences (whole or with the ESC lost), control and
// bidirectional characters, invalid UTF-8, HTML escapes, full-width punctuation, runs of blanks. A
// break that may have been put into the middle of a message (a hard wrap, a run of blanks inside a
// word) becomes kSoftBreak; the readers of cursor.h look through it. Any other line end is '\n', a
// place where lines were left out is two of them.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "explain/read/envelope.h"
#include "explain/read/excerpt.h"
#include "explain/read/prefix.h"

namespace plimsoll::explain {

constexpr char kSoftBreak = '\x01';

// One physical line (or what a carriage return left of it), cleaned. Holds no '\n'. What others put
// in front of every line (quotation marks, ranks, actors, containers, loggers' stamps and levels)
// is taken off.
std::string clean_line(std::string_view raw);

// The steps of it. Characters first: no controls, no terminal sequences, whole UTF-8.
std::string plain_text(std::string_view raw);
// Without quotation marks and prefix.h's prefix, which is given too.
std::string_view without_marks(std::string_view plain, Prefix& prefix);
std::string without_long_runs(std::string_view line);

// True when `line` starts like the beginning of a log record rather than the rest of a wrapped one.
bool starts_record(std::string_view line);
// The same where the line before is as long as lines can be, so that little else speaks against it.
bool starts_record_surely(std::string_view line);

class Document {
 public:
  // `is_cut`: the log ended within a line.
  explicit Document(std::span<const KeptSegment> segments, bool is_cut = false);

  const std::string& text() const { return text_; }
  // Whether the log ends at `offset`, within a line that perhaps went on.
  bool is_cut_at(size_t offset) const { return is_cut_ && offset >= text_.size(); }
  // What a line has: of an index that is no line's, which the first is where nothing was kept of
  // the log, the number 0, the end of the text, and nothing.
  size_t line_count() const { return starts_.size(); }
  size_t line_index(size_t offset) const;
  int64_t number(size_t index) const { return index < numbers_.size() ? numbers_[index] : 0; }
  // Whether its writer called it a warning or less.
  bool is_quiet(size_t index) const { return index < quiet_.size() && quiet_[index]; }
  // Without the break at its end.
  std::string_view line(size_t index) const;
  size_t start(size_t index) const {
    return index < starts_.size() ? starts_[index] : text_.size();
  }
  int64_t number_at(size_t offset) const;

  // The line around `offset` for quoting, soft breaks as blanks, at most 220 characters.
  std::string quote(size_t offset) const;

  // Position of the lower-case `phrase` in [from, to), seen through soft breaks, or npos.
  size_t find(std::string_view phrase, size_t from = 0, size_t to = std::string::npos) const;
  // The last one before `before`, or npos; looks back `reach` bytes at most.
  size_t find_back(std::string_view phrase, size_t before, size_t reach) const;
  // End of the match of `phrase` at `at`, or npos. A blank in `phrase` stands for any white space.
  size_t match(std::string_view phrase, size_t at) const;
  // First position of a hard line end at or after `at`, and first position after one before `at`.
  size_t record_end(size_t at) const;
  size_t record_start(size_t at) const;
  // Whether words of a sentence stand before `at` in its line: "so as to avoid MemoryError". Marks
  // such as "E " and "ERROR " are none.
  bool is_after_words(size_t at) const;
  // Whether `at` lies within quotation marks that a sentence opens: 'I get "RuntimeError: …'.
  bool is_quoted(size_t at) const;

 private:
  // Where a line comes from: its number, what it was as printed, and how it goes on from the last.
  struct Source {
    int64_t number = 0;
    size_t width = 0;  // before a prefix was taken off
    bool has_prefix = false;
    bool continues = false;
    bool starts_record = false;
    bool is_quiet = false;
  };

  void append(const KeptSegment& segment, std::string_view part, bool continues);
  void append_line(const Source& source, std::string_view line);
  bool goes_on(const KeptSegment& segment, std::string_view plain, bool continues) const;
  void close_envelope();

  bool is_cut_;
  std::string text_;
  std::vector<size_t> starts_;
  std::vector<int64_t> numbers_;
  std::vector<bool> quiet_;
  size_t wrap_width_ = 0;  // at which lines were cut, 0 if they were not
  // Widths of the last line: as printed, and without its prefix, which is what a program that cuts
  // its own lines sees.
  size_t last_width_ = 0;
  size_t last_own_width_ = 0;
  // A record that is not complete yet, its first line and the last one read.
  std::optional<Envelope> envelope_;
  int64_t envelope_line_ = 0;
  int64_t envelope_last_ = 0;
  size_t envelope_width_ = 0;
};

}  // namespace plimsoll::explain
