#pragma once

// Where files go: the user's folder for what can be made again, and whether a file that is written
// at the end can be written there at all. That is asked at the start: work whose result has no
// place is not begun.

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

// $XDG_CACHE_HOME/plimsoll, or $HOME/.cache/plimsoll; empty where the environment names no absolute
// folder. It need not exist.
std::string user_cache_folder();

// Throws kIo where the folder of `path` is none or may not be written to, or `path` is a folder.
void check_place(const std::string& path);

// For an option that writes text. Throws kConfig where the name is one of a model or of arrays
// (.keras, .h5, .npy …), or ends in one of `more`: a slip must not replace what was trained.
void check_text_name(std::string_view option, const std::string& path,
                     std::initializer_list<std::string_view> more = {});

// Throws kConfig where `path` is one of the files that are read: it would be lost. Those may be
// spelled with a name before ("labels=y.npy").
void check_not_read(std::string_view option, const std::string& path,
                    std::span<const std::string> read);

}  // namespace plimsoll
