#pragma once

// The folder for spill files and inflated inputs.
//
// A file there stands in for memory, so a memory file system (tmpfs, ramfs) is refused: what it
// holds would count against the limit under another name.

#include <string>

#include "base/bytes.h"

namespace plimsoll {

// The first that can be written and is no memory file system: `requested`; or, where that is "",
// $TMPDIR, then /var/tmp. A folder that was requested and will not do is kConfig (it is never
// replaced by another in silence); none at all is kIo. The message gives the reason for each.
std::string choose_spill_folder(const std::string& requested);

// Space that an unprivileged process may still use on the folder's file system. Throws kIo.
Bytes free_space(const std::string& folder);

}  // namespace plimsoll
