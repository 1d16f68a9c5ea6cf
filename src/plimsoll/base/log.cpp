#include "base/log.h"

#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

namespace plimsoll {
namespace {

struct LogState {
  std::mutex mutex;
  LogLevel level = LogLevel::kInfo;
  LogSink sink;
};

LogState& state() {
  static LogState instance;
  return instance;
}

std::string_view prefix(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug: ";
    case LogLevel::kInfo:
      return "";
    case LogLevel::kWarning:
      return "warning: ";
    case LogLevel::kError:
      return "error: ";
  }
  return "";
}

}  // namespace

void log(LogLevel level, std::string_view line) {
  LogSink sink;  // called outside of the lock: it may wait for a lock of its own, or log
  {
    LogState& log_state = state();
    const std::lock_guard lock(log_state.mutex);
    if (level >= log_state.level) sink = log_state.sink;
  }
  if (sink) sink(level, line);
}

void log_to_standard_error(LogLevel level, std::string_view line) {
  std::string text(prefix(level));
  text += line;
  text += '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
}

LogLevel set_log_level(LogLevel level) {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().level, level);
}

LogSink set_log_sink(LogSink sink) {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().sink, std::move(sink));
}

}  // namespace plimsoll
