#pragma once

// The user's folder for what can be made again: $XDG_CACHE_HOME/plimsoll, or $HOME/.cache/plimsoll.

#include <string>

namespace plimsoll {

// Empty where the environment names no absolute folder. It need not exist.
std::string user_cache_folder();

}  // namespace plimsoll
