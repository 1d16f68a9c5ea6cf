#pragma once

// `plimsoll bench --estimates NETWORK…`: how far the times that plans are chosen by are from those
// that kernels take.

#include <functional>
#include <string>
#include <vector>

#include "report/profile.h"

namespace plimsoll::cli {

// Each network is measured by `profile` in a process of its own; a table each, and one of all of
// them where there are several. The exit code of the one that ended worst. `is_child`: this is such
// a process, whose exit code that is.
int run_estimates(const std::vector<std::string>& names, bool json,
                  const std::function<report::Profile(const std::string&)>& profile,
                  bool& is_child);

}  // namespace plimsoll::cli
