#pragma once

// Log records that carry a program's text inside of something else: JSON objects of container
// runtimes and structured loggers, and key=value lines.
//
// The text is taken out line by line, escapes undone. Of the other fields only those that may tell
// something (an exit code, a reason) are kept, after the text. Nothing needs to be well formed: a
// record that is cut, or wrapped over lines, gives what it holds.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::explain {

class Envelope {
 public:
  static constexpr size_t kMostBytes = 1 << 16;

  // Whether a line begins such a record.
  static bool opens(std::string_view line);

  explicit Envelope(std::string_view line);
  // The next part of a record that is not complete.
  void add(std::string_view rest);
  bool is_complete() const { return complete_; }
  size_t size() const { return text_.size(); }

  // The lines inside, not yet clean: escapes may have stood for anything.
  std::vector<std::string> lines() const;
  // Whether its level is that of a warning or less.
  bool is_quiet() const;

 private:
  void scan();

  std::string text_;
  bool json_ = true;
  bool complete_ = false;
  size_t scanned_ = 0;
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace plimsoll::explain
