#pragma once

// One line of plan text, taken apart from left to right.
//
// Tokens are words, names and the marks ( ) ->. A name that holds a blank or a mark is written in
// quotes with \" and \\. A # outside of quotes starts a comment. Every error names the line.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::plan {

// `name` as it stands in a plan text, in quotes where it must be.
std::string quote_name(std::string_view name);

class TextLine {
 public:
  // Throws kConfig where a quote is not closed.
  TextLine(std::string_view text, int number);

  bool empty() const { return next_ == tokens_.size(); }
  int number() const { return number_; }

  // The next token whatever it is; `what` says in the error what was expected.
  std::string take_name(std::string_view what);
  void take_mark(std::string_view mark);
  // Takes the mark if it comes next.
  bool skip_mark(std::string_view mark);
  // "%7" or "L3" as 7 and 3, by prefix.
  int32_t take_number(char prefix, std::string_view what);
  // "key=value": fills both.
  void take_field(std::string& key, std::string& value);

  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void fail_field(std::string_view key, std::string_view known) const;

  // A count from 0 to 2^62.
  int64_t parse_count(std::string_view text, std::string_view what) const;
  int32_t parse_number(std::string_view text, char prefix, std::string_view what) const;

 private:
  struct Token {
    std::string text;
    bool quoted = false;
    bool mark = false;
  };
  const Token& next(std::string_view what);
  std::vector<Token> tokens_;
  size_t next_ = 0;
  int number_;
};

}  // namespace plimsoll::plan
