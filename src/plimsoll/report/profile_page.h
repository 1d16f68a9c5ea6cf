#pragma once

// A profile (profile.h) as a page that stands alone: its slowest rows, with the figures of the JSON
// by their keys. Rows beyond those are in the embedded record.

#include <string>

#include "report/profile.h"

namespace plimsoll::report {

std::string to_html(const Profile& profile);

}  // namespace plimsoll::report
