#pragma once

// Exit codes: one per kind of ending, the same for every command.

#include "base/error.h"

namespace plimsoll::cli {

enum ExitCode : int {
  kDone = 0,
  kUsage = 2,
  kDoesNotFit = 3,    // impossible or not found
  kModelRefused = 4,  // refused or invalid
  kBadData = 5,
  kFileFailure = 6,  // a file or a device
  kInterrupted = 7,  // what there was has been written
  kPassedLimit = 8,  // done, but the process passed its limit: our fault
  kOurBug = 70,
};

ExitCode exit_code_of(ErrorKind kind);

}  // namespace plimsoll::cli
