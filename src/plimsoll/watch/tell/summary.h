#pragma once

// A watched run as text for people and as JSON for programs. Both are written from the same Run, so
// their figures are the same; byte counts in JSON are exact. docs/reference/watch.md is the schema.

#include <string>

#include "watch/run.h"

namespace plimsoll::watch {

// Lines for the end of a run, without a prefix; each ends with a newline.
std::string to_text(const Run& run);

// One object, keys in a fixed order, ends with a newline.
std::string to_json(const Run& run);

// "python train.py --batch-size 64": quoted where a shell would need it, no control characters.
std::string command_line(const std::vector<std::string>& words);

}  // namespace plimsoll::watch
