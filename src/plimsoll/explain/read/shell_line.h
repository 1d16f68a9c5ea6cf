#pragma once

// How shells say that a program died of a signal: the signal's words in a line of their own, glued
// to whatever stood in the line, or after a job's number. Sentences that hold the word are none.

#include <string_view>

namespace plimsoll::explain {

// `line` without blanks and "(core dumped)" at its end.
std::string_view without_tail(std::string_view line);

// "Killed" as a shell prints it, glued to whatever stood in the line: a bar, a loss, nothing.
bool is_shell_word(std::string_view line, std::string_view word);

// The same of a word in another language, which may be part of a longer one.
bool is_translated_word(std::string_view line, std::string_view word);

// "script: line 28:  8156 Killed   python3 main.py", "[1]+  Killed   python", "zsh: killed  python"
// `word` in lower case; of a translated one, "line" is too.
bool is_job_line(std::string_view line, std::string_view word, bool is_translated = false);

}  // namespace plimsoll::explain
