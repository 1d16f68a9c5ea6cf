#pragma once

// A watched run as one HTML file that needs nothing else (report/html.h).

#include <string>

#include "watch/run.h"

namespace plimsoll::watch {

std::string to_html(const Run& run);

}  // namespace plimsoll::watch
