#include "base/places.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/file.h"

namespace plimsoll {

std::string user_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/plimsoll";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home) + "/.cache/plimsoll";
  return "";
}

void check_place(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const std::string name = folder.empty() ? "." : folder.string();
  if (::access(name.c_str(), W_OK | X_OK) != 0) throw_io(path, "be written there", errno);
  std::error_code unreadable;
  if (std::filesystem::is_directory(path, unreadable)) throw_io(path, "be written", EISDIR);
}

}  // namespace plimsoll
