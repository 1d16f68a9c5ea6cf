#pragma once

// Lines for the person in front of the program: one function, to standard error.
//
// Not for results (those are printed by commands) and not for records of a run (trace). Safe to
// call from several threads. Tests redirect it.

#include <functional>
#include <string_view>

namespace plimsoll {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Writes `line` (without its end) when `level` is at least the current one: "warning: …".
void log(LogLevel level, std::string_view line);

// Both return what was set before. The start is kInfo and standard error; an empty sink is that.
LogLevel set_log_level(LogLevel level);
using LogSink = std::function<void(LogLevel, std::string_view)>;
LogSink set_log_sink(LogSink sink);

}  // namespace plimsoll
