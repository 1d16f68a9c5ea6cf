#include "cli/exit_code.h"

namespace plimsoll::cli {

ExitCode exit_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kConfig:
      return kUsage;
    case ErrorKind::kBudget:
      return kDoesNotFit;
    case ErrorKind::kModel:
      return kModelRefused;
    case ErrorKind::kData:
      return kBadData;
    case ErrorKind::kIo:
      return kFileFailure;
    case ErrorKind::kBackend:
      return kFileFailure;
    case ErrorKind::kInternal:
      return kOurBug;
  }
  return kOurBug;
}

}  // namespace plimsoll::cli
