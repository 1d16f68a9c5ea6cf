#include "cli/rank_output.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "cli/exit_code.h"

namespace plimsoll::cli {

CommandRanks::CommandRanks(double timeout_seconds)
    : joined_(ranks::join({.timeout_seconds = timeout_seconds})) {
  if (leads()) return;
  std::fflush(stderr);
  error_ = dup(STDERR_FILENO);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, STDERR_FILENO);
  dup2(nowhere, STDOUT_FILENO);
  close(nowhere);
}

CommandRanks::~CommandRanks() {
  if (std::uncaught_exceptions() > 0) speak();
}

void CommandRanks::speak() {
  if (error_ < 0) return;
  const timespec second{1, 0};
  nanosleep(&second, nullptr);  // the first rank, where it failed too, has spoken
  dup2(error_, STDERR_FILENO);
  close(error_);
  error_ = -1;
  std::fprintf(stderr, "rank %d on %s: ", joined_->rank(), joined_->host().c_str());
}

int CommandRanks::end(int code) {
  const bool failed = code != kDone && code != kInterrupted && code != kPassedLimit;
  if (joined_ != nullptr && failed) {
    std::fflush(stderr);
    if (!leads()) {
      speak();
      std::fprintf(stderr, "the command ended with exit code %d\n", code);
    }
    joined_->abort(code);
  }
  return code;
}

}  // namespace plimsoll::cli
