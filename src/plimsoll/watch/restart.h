#pragma once

// Running again after a death for want of memory, with a smaller batch.
//
// The value after an argument (`--batch-size 64`, `--batch-size=64`, `batch_size=64`) is halved,
// never below 1; that after another is doubled, so that the effective batch stays. Only numbers
// are touched, only the argument that is named, and every change is said and written down: nothing
// is adapted in silence.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "watch/run.h"

namespace plimsoll::watch {

struct RestartOptions {
  int most = 0;                               // restarts
  std::string halve;                          // name of an argument, e.g. "--batch-size"; "": none
  std::string halve_environment;              // name of a variable; "": none
  std::string accumulate;                     // name of an argument to double; "": none
  std::vector<std::string> resume_arguments;  // appended from the first restart on
  std::string history;                        // file that gets one JSON line an attempt; "": none
};

// Replaces the number after `name` in the command by `change` of it. Nothing when the command has
// no such argument, or it is no positive whole number, or the change refuses it.
using NumberChange = std::optional<int64_t> (*)(int64_t value);
std::optional<std::vector<std::string>> change_argument(const std::vector<std::string>& command,
                                                        std::string_view name, NumberChange change);
std::optional<int64_t> half(int64_t value);     // nothing below 2
std::optional<int64_t> doubled(int64_t value);  // nothing when it would overflow

// The next attempt's options; the text says what was changed, or why there is none.
struct NextAttempt {
  std::optional<WatchOptions> options;
  std::string text;
};
NextAttempt next_attempt(const WatchOptions& options, const RestartOptions& restart, int attempt);

// Runs, and runs again as long as memory is what it died of and restarts are left. The Run is that
// of the last attempt and lists all of them.
Run watch_with_restarts(WatchOptions options, const RestartOptions& restart,
                        const std::function<void(const Event&)>& tell);

// Words of a line as a shell without expansion would cut them: blanks, quotes, backslashes.
std::vector<std::string> split_words(std::string_view line);

}  // namespace plimsoll::watch
