#include "cli/typed_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <utility>

namespace plimsoll::cli {
namespace {

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

// Whether the word gives that option, its value included or not.
bool gives(const std::string& word, const std::string& option) {
  return word == option || (word.starts_with(option) && word[option.size()] == '=');
}

std::string join(const std::string& program, const std::vector<std::string>& words) {
  std::string line = shell_word(program);
  for (const std::string& word : words) line += " " + shell_word(word);
  return line;
}

// The option that a word of the command line names; null: it is a value, or the model.
const CLI::Option* find_option(const CLI::App& command, const std::string& word) {
  if (!word.starts_with("--")) return nullptr;
  return command.get_option_no_throw(word.substr(0, word.find('=')));
}

}  // namespace

std::string shell_word(const std::string& word) {
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string command_line(const TypedCommand& command, const std::vector<std::string>& more) {
  std::vector<std::string> words = command.words;
  words.insert(words.end(), more.begin(), more.end());
  return join(command.program, words);
}

TypedCommand changed(const TypedCommand& command, const report::OptionChange& change) {
  std::vector<std::string> words;
  bool changed = change.left_out;
  for (size_t i = 0; i < command.words.size(); ++i) {
    const std::string& word = command.words[i];
    if (!gives(word, change.option)) {
      words.push_back(word);
      continue;
    }
    if (!change.value.empty() && word == change.option) ++i;  // its old value
    if (changed) continue;
    changed = true;
    words.push_back(change.option);
    if (!change.value.empty()) words.push_back(change.value);
  }
  if (!changed) {
    words.push_back(change.option);
    if (!change.value.empty()) words.push_back(change.value);
  }
  return {command.program, std::move(words), command.tail};
}

std::string changed_line(const TypedCommand& command, const report::OptionChange& change) {
  return command_line(changed(command, change));
}

std::string other_command(const TypedCommand& command, const CLI::App& app, const std::string& name,
                          const std::vector<std::string>& more) {
  return command_line(other_typed(command, app, name), more);
}

TypedCommand other_typed(const TypedCommand& command, const CLI::App& app,
                         const std::string& name) {
  const CLI::App& from = *app.get_subcommands().front();
  const CLI::App& to = *app.get_subcommand(name);
  std::vector<std::string> words = {name};
  bool takes = true;  // the option before
  for (size_t i = 1; i < command.words.size(); ++i) {
    const std::string& word = command.words[i];
    const CLI::Option* option = find_option(from, word);
    if (option == nullptr) {  // the model, or a value of the option before
      if (takes) words.push_back(word);
      takes = true;
      continue;
    }
    // An option of the same name that does something else is another one: what `fit --output` names
    // is a model, what `plan --output` names is a plan.
    const CLI::Option* same = to.get_option_no_throw(word.substr(0, word.find('=')));
    const bool kept = same != nullptr && same->get_description() == option->get_description();
    if (kept) words.push_back(word);
    const bool has_value =
        option->get_items_expected_max() > 0 && word.find('=') == std::string::npos;
    takes = kept || !has_value;
  }
  return {command.program, std::move(words), {}};
}

report::Spelling spelling(const TypedCommand& command) {
  return [command](const report::OptionChange& change) { return changed_line(command, change); };
}

}  // namespace plimsoll::cli
