#include "base/places.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"

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

void check_text_name(std::string_view option, const std::string& path,
                     std::initializer_list<std::string_view> more) {
  std::string name = path;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  constexpr std::string_view kBinary[] = {".keras", ".h5", ".hdf5", ".npy", ".npz"};
  if (!std::ranges::any_of(kBinary, ends) && !std::ranges::any_of(more, ends)) return;
  const std::string ending = std::filesystem::path(path).extension().string();
  throw Error(ErrorKind::kConfig,
              fmt::format("{}: expected a file for text, received {}, whose ending {} is that of a "
                          "model or of data. Name another file.",
                          option, path, ending));
}

void check_not_read(std::string_view option, const std::string& path,
                    std::span<const std::string> read) {
  if (path.empty()) return;
  const auto is_it = [&](const std::string& other) {
    std::error_code missing;
    return std::filesystem::equivalent(path, other, missing);
  };
  for (const std::string& each : read) {
    if (!is_it(each) && !is_it(each.substr(each.find('=') + 1))) continue;
    throw Error(ErrorKind::kConfig,
                fmt::format("{}: expected a file of its own, received {}, which "
                            "this command reads. Name another file.",
                            option, path));
  }
}

}  // namespace plimsoll
