#pragma once

// A profile's file, in the form that its name asks for.

#include <string>

#include "report/profile.h"

namespace plimsoll::cli {

// `.html`: a page; `.trace.json`: for viewers of Chrome's traces; anything else: JSON. Throws kIo.
void write_profile(const std::string& path, const report::Profile& profile);

}  // namespace plimsoll::cli
