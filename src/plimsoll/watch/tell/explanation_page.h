#pragma once

// What `plimsoll explain` says as a page that stands alone: the same figures as its JSON, by their
// keys. It stands here because pages are `report`'s and `explain` does not know it.

#include <string>
#include <string_view>

#include "explain/explanation.h"

namespace plimsoll::watch {

// `name` is the log's name; may be empty.
std::string to_html(const explain::Explanation& explanation, std::string_view name);

}  // namespace plimsoll::watch
