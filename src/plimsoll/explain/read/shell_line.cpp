#include "explain/read/shell_line.h"

#include <string>

#include "explain/read/document.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string_view::npos;
constexpr std::string_view kCoreDumped = "(core dumped)";

// The end of a figure or a bar.
bool is_glue(char c) { return is_digit(c) || c == ']' || c == ')' || c == '|'; }

}  // namespace

std::string_view without_tail(std::string_view line) {
  const auto trim = [&] {
    while (!line.empty() && (line.back() == ' ' || line.back() == kSoftBreak)) {
      line.remove_suffix(1);
    }
  };
  trim();
  if (line.ends_with(kCoreDumped)) line.remove_suffix(kCoreDumped.size());
  trim();
  return line;
}

bool is_shell_word(std::string_view line, std::string_view word) {
  line = without_tail(line);
  if (equals_ignoring_case(line, word)) return true;
  if (line.ends_with('.') && equals_ignoring_case(line.substr(0, line.size() - 1), word)) {
    return true;
  }
  if (line.size() < word.size()) return false;
  const std::string_view end = line.substr(line.size() - word.size());
  line.remove_suffix(word.size());
  if (end != word) {
    // In small letters only where nothing stands between: "0.9811killed".
    return equals_ignoring_case(end, word) && !line.empty() && is_glue(line.back());
  }
  const size_t before = line.find_last_not_of(" \x01");
  // After a word it is the end of a sentence.
  return before == npos || !(is_alpha(line[before]) || line[before] == ',');
}

bool is_translated_word(std::string_view line, std::string_view word) {
  line = without_tail(line);
  if (line.size() < word.size()) return false;
  if (!equals_ignoring_case(line.substr(line.size() - word.size()), word)) return false;
  line.remove_suffix(word.size());
  return line.empty() || is_glue(line.back()) || line.find_first_not_of(' ') == npos;
}

bool is_job_line(std::string_view line, std::string_view word, bool is_translated) {
  const size_t at = find_ignoring_case(line, word);
  if (at == npos || at + word.size() >= line.size()) return false;
  const char after = line[at + word.size()];
  if (after != ' ' && after != kSoftBreak) return false;
  const std::string_view before = line.substr(0, at);
  if (before.find("zsh: ") != npos) return true;
  const size_t last = before.find_last_not_of(" \x01");
  if (last == npos) return false;
  // "[1]  8156 killed  python", and "line 28: 8156 Killed" with "line" in whatever language.
  size_t number = 1;
  while (number < before.size() && is_digit(before[number])) ++number;
  const bool job = before.front() == '[' && number > 1 && before.substr(number, 1) == "]";
  if (is_digit(before[last])) {
    const bool line_number = before.find(": line ") != npos;
    return job || line_number || (is_translated && before.find(": ") != npos);
  }
  return last + 1 > 2 && before[last] == '+' && job;
}

}  // namespace plimsoll::explain
