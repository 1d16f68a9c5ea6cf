#include "base/spill_folder.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace plimsoll {
namespace {

// Why `folder` cannot be used; "" when it can.
std::string reason_against(const std::string& folder) {
  struct stat info = {};
  if (::stat(folder.c_str(), &info) != 0) return std::generic_category().message(errno);
  if (!S_ISDIR(info.st_mode)) return "not a folder";
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return std::generic_category().message(errno);
  struct statfs system = {};
  if (::statfs(folder.c_str(), &system) != 0) return std::generic_category().message(errno);
  const auto type = static_cast<unsigned long>(system.f_type);
  if (type == TMPFS_MAGIC || type == RAMFS_MAGIC) {
    return "a memory file system: its files would count as memory";
  }
  return "";
}

}  // namespace

std::string choose_spill_folder(const std::string& requested) {
  if (!requested.empty()) {
    const std::string reason = reason_against(requested);
    if (reason.empty()) return requested;
    throw Error(ErrorKind::kConfig, "--spill-dir " + requested +
                                        ": expected a writable folder on a disk, received " +
                                        reason + ". Name another one.");
  }
  std::vector<std::string> candidates;
  const char* temporary = std::getenv("TMPDIR");
  if (temporary != nullptr && *temporary != '\0') candidates.emplace_back(temporary);
  candidates.emplace_back("/var/tmp");
  std::string reasons;
  for (const std::string& folder : candidates) {
    const std::string reason = reason_against(folder);
    if (reason.empty()) return folder;
    reasons += (reasons.empty() ? "" : "; ") + folder + ": " + reason;
  }
  throw Error(ErrorKind::kIo, "temporary files: expected a writable folder on a disk, received " +
                                  reasons + ". Name one with --spill-dir.");
}

Bytes free_space(const std::string& folder) {
  struct statfs system = {};
  if (::statfs(folder.c_str(), &system) != 0) throw_io(folder, "read its free space", errno);
  return Bytes(static_cast<int64_t>(system.f_bavail) * static_cast<int64_t>(system.f_bsize));
}

}  // namespace plimsoll
