#pragma once

// What the command prints: kept in part, explained in full.
//
// The bytes of both streams come in blocks of any size. They are cut into lines per stream (a
// carriage return or a run of backspaces ends one too: progress bars), freed from terminal
// sequences, and given to the progress counter and to a ring of the last lines; the raw lines go to
// the explainer. Memory is bounded whatever is printed. Passing the bytes on is not done here.

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "explain/explainer.h"
#include "watch/marks.h"

namespace plimsoll::watch {

// Without escape sequences and control characters, invalid UTF-8 replaced, cut to `most` bytes.
std::string clean_line(std::string_view raw, size_t most);

class Output {
 public:
  static constexpr size_t kKeptLines = 40;
  static constexpr size_t kKeptBytes = 200;  // of a line
  static constexpr size_t kStreams = 2;

  void feed(size_t stream, std::string_view bytes);
  // Ends both streams' last lines and explains all that came. Called once.
  explain::Explanation finish();

  const ProgressMarks& marks() const { return marks_; }
  const std::deque<std::string>& last_lines() const { return lines_; }
  // "" before anything was printed.
  std::string last_line() const { return lines_.empty() ? std::string() : lines_.back(); }
  int64_t bytes() const { return bytes_; }

 private:
  void take(size_t stream, std::string_view piece, bool ends_line);

  static constexpr size_t kMostLine = 4096;

  std::array<std::string, kStreams> pending_;
  std::array<bool, kStreams> cut_{};        // the line goes on beyond what was taken of it
  std::array<char, kStreams> separator_{};  // the one before
  std::deque<std::string> lines_;
  ProgressMarks marks_;
  explain::Explainer explainer_;
  int64_t bytes_ = 0;
};

}  // namespace plimsoll::watch
