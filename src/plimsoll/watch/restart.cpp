#include "watch/restart.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/format.h"
#include "watch/tell/summary.h"

namespace plimsoll::watch {
namespace {

std::optional<int64_t> parse_count(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

std::optional<std::string> changed(std::string_view text, NumberChange change) {
  const std::optional<int64_t> value = parse_count(text);
  const std::optional<int64_t> result = value ? change(*value) : std::nullopt;
  return result ? std::optional<std::string>(std::to_string(*result)) : std::nullopt;
}

// What the variable is for the command: set here, or inherited.
std::string variable(const WatchOptions& options, const std::string& name) {
  for (const auto& [key, value] : options.environment) {
    if (key == name) return value;
  }
  const char* inherited = std::getenv(name.c_str());
  return inherited != nullptr ? inherited : "";
}

void set_variable(WatchOptions& options, const std::string& name, const std::string& value) {
  std::erase_if(options.environment, [&](const auto& entry) { return entry.first == name; });
  options.environment.emplace_back(name, value);
}

Attempt attempt_of(const Run& run) {
  return {command_line(run.command), std::string(to_string(run.verdict.kind)), run.exit_code,
          run.peak.held_bytes, run.seconds};
}

// One line, appended and flushed to the device: it survives whatever ends the watcher next.
void write_history(const std::string& path, size_t number, const Attempt& attempt) {
  if (path.empty()) return;
  const nlohmann::ordered_json json = {{"attempt", number},
                                       {"command", attempt.command},
                                       {"verdict", attempt.verdict},
                                       {"exit_code", attempt.exit_code},
                                       {"peak_held_bytes", attempt.peak_held},
                                       {"seconds", attempt.seconds}};
  const std::string line = json.dump() + "\n";
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) throw_io(path, "append to", errno);
  const ssize_t written = ::write(descriptor, line.data(), line.size());
  const int error = written == static_cast<ssize_t>(line.size()) ? 0 : errno;
  ::fsync(descriptor);
  ::close(descriptor);
  if (error != 0) throw_io(path, "append to", error);
}

}  // namespace

std::optional<int64_t> half(int64_t value) {
  return value >= 2 ? std::optional<int64_t>(value / 2) : std::nullopt;
}

std::optional<int64_t> doubled(int64_t value) {
  if (value > std::numeric_limits<int64_t>::max() / 2) return std::nullopt;
  return value * 2;
}

std::optional<std::vector<std::string>> change_argument(const std::vector<std::string>& command,
                                                        std::string_view name,
                                                        NumberChange change) {
  std::vector<std::string> result = command;
  const std::string joined = std::string(name) + "=";
  for (size_t i = 1; i < result.size(); ++i) {
    if (result[i].starts_with(joined)) {
      const auto value = changed(std::string_view(result[i]).substr(joined.size()), change);
      if (!value) return std::nullopt;
      result[i] = joined + *value;
      return result;
    }
    if (result[i] == name && i + 1 < result.size()) {
      const auto value = changed(result[i + 1], change);
      if (!value) return std::nullopt;
      result[i + 1] = *value;
      return result;
    }
  }
  return std::nullopt;
}

NextAttempt next_attempt(const WatchOptions& options, const RestartOptions& restart, int attempt) {
  WatchOptions next = options;
  std::string text;
  const auto none = [](std::string why) { return NextAttempt{std::nullopt, std::move(why)}; };
  if (!restart.halve.empty()) {
    auto command = change_argument(next.command, restart.halve, half);
    if (!command) return none("the number after " + restart.halve + " cannot be halved");
    next.command = std::move(*command);
    text += "; " + restart.halve + " halved";
  }
  if (!restart.halve_environment.empty()) {
    const std::string& name = restart.halve_environment;
    const auto value = changed(variable(next, name), half);
    if (!value) return none(name + " cannot be halved");
    set_variable(next, name, *value);
    text += "; " + name + "=" + *value;
  }
  if (!restart.accumulate.empty()) {
    auto command = change_argument(next.command, restart.accumulate, doubled);
    if (!command) return none("the number after " + restart.accumulate + " cannot be doubled");
    next.command = std::move(*command);
    text += "; " + restart.accumulate + " doubled";
  }
  if (attempt == 1) {
    next.command.insert(next.command.end(), restart.resume_arguments.begin(),
                        restart.resume_arguments.end());
  }
  return {next, fmt::format("restart {} of {}{}: {}", attempt, restart.most, text,
                            command_line(next.command))};
}

Run watch_with_restarts(WatchOptions options, const RestartOptions& restart,
                        const std::function<void(const Event&)>& tell) {
  std::vector<Attempt> attempts;
  for (int number = 1;; ++number) {
    Run run = watch_command(options, tell);
    attempts.push_back(attempt_of(run));
    if (restart.most > 0) write_history(restart.history, attempts.size(), attempts.back());
    const bool again = number <= restart.most && is_memory_death(run.verdict);
    NextAttempt next;
    if (again) {
      next = next_attempt(options, restart, number);
      tell({run.seconds, "restart", run.verdict.sentence + " " + next.text});
    }
    if (!next.options) {
      run.attempts = std::move(attempts);
      return run;
    }
    options = std::move(*next.options);
  }
}

std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == '\\' && i + 1 < line.size()) {
      word += line[++i];
      in_word = true;
    } else if (c == ' ' || c == '\t') {
      if (in_word) words.push_back(std::exchange(word, {}));
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (in_word) words.push_back(word);
  return words;
}

}  // namespace plimsoll::watch
