#pragma once

// Lines for the person in front of the program, wherever the program has them go.
//
// Without a sink they are dropped: standard error is not the library's to write to. Not for results
// (those are printed by commands) and not for records of a run (trace). Safe to call from several
// threads.

#include <functional>
#include <string_view>

namespace plimsoll {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Hands `line` (without its end) to the sink when `level` is at least the current one.
void log(LogLevel level, std::string_view line);

// Both return what was set before. The start is kInfo and no sink.
LogLevel set_log_level(LogLevel level);
using LogSink = std::function<void(LogLevel, std::string_view)>;
LogSink set_log_sink(LogSink sink);

// A sink for programs: "warning: …" on standard error.
void log_to_standard_error(LogLevel level, std::string_view line);

}  // namespace plimsoll
