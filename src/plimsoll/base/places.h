#pragma once

// Where files go: the user's folder for what can be made again, and whether a file that is written
// at the end can be written there at all. That is asked at the start: work whose result has no
// place is not begun.

#include <string>

namespace plimsoll {

// $XDG_CACHE_HOME/plimsoll, or $HOME/.cache/plimsoll; empty where the environment names no absolute
// folder. It need not exist.
std::string user_cache_folder();

// Throws kIo where the folder of `path` is none or may not be written to, or `path` is a folder.
void check_place(const std::string& path);

}  // namespace plimsoll
