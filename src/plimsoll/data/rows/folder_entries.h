#pragma once

// What lies in a folder, entry by entry.
//
// A range-for over a directory_iterator throws the standard library's own exception where the
// listing breaks off halfway; here that is an error code, as is a folder that cannot be opened.
// Internal to data.

#include <filesystem>
#include <system_error>

namespace plimsoll::data {

// Calls `visit` with each entry, in no order, until it gives false.
template <typename Visit>
std::error_code visit_entries(const std::filesystem::path& folder, const Visit& visit) {
  std::error_code failed;
  std::filesystem::directory_iterator entries(folder, failed);
  while (!failed && entries != std::filesystem::directory_iterator() && visit(*entries)) {
    entries.increment(failed);
  }
  return failed;
}

}  // namespace plimsoll::data
