#include "base/cache_folder.h"

#include <cstdlib>

namespace plimsoll {

std::string user_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/plimsoll";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home) + "/.cache/plimsoll";
  return "";
}

}  // namespace plimsoll
