#pragma once

// The command as it was typed, and others made from it that can be pasted into a shell.

#include <string>
#include <vector>

#include "report/plan_text.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace plimsoll::cli {

struct TypedCommand {
  std::string program;             // "plimsoll", as it was called
  std::vector<std::string> words;  // after it
  std::vector<std::string> tail;   // of `watch`: the watched command, after the first --
};

// One word of a command line; quoted where a shell would read it otherwise.
std::string shell_word(const std::string& word);
// All of it on one line, and with more words at its end.
std::string command_line(const TypedCommand& command, const std::vector<std::string>& more = {});
// With one option given anew, or first given, or left out (with `value` where it had one).
TypedCommand changed(const TypedCommand& command, const report::OptionChange& change);
std::string changed_line(const TypedCommand& command, const report::OptionChange& change);
TypedCommand other_typed(const TypedCommand& command, const CLI::App& app, const std::string& name);
// Another command with those of the options that it takes too and that mean the same to both:
// `plan` of what `fit` was to train.
// `app` has both commands and has parsed the typed one.
std::string other_command(const TypedCommand& command, const CLI::App& app, const std::string& name,
                          const std::vector<std::string>& more = {});

// A summary's options spelled as the command that was typed, with one of them changed.
report::Spelling spelling(const TypedCommand& command);

}  // namespace plimsoll::cli
