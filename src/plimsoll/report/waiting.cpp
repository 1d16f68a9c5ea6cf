#include "report/waiting.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace plimsoll::report {
namespace {

using std::chrono::seconds;

constexpr seconds kPatience{1};      // of whoever sits at a terminal
constexpr seconds kLogPatience{10};  // of whoever reads a log

}  // namespace

Waiting::Waiting(std::string what, bool quiet) : what_(std::move(what)) {
  if (!quiet) thread_ = std::thread([this] { tell(); });
}

Waiting::~Waiting() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Waiting::tell() {
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const auto over = [this] { return done_; };
  std::unique_lock lock(mutex_);
  const seconds patience = terminal ? kPatience : kLogPatience;
  if (ended_.wait_for(lock, patience, over)) return;
  if (!terminal) {
    std::fprintf(stderr, "%s takes longer than %d s\n", what_.c_str(),
                 static_cast<int>(patience.count()));
    return;
  }
  for (auto now = patience;; now += seconds(1)) {
    std::fprintf(stderr, "\r%s … %d s", what_.c_str(), static_cast<int>(now.count()));
    std::fflush(stderr);
    if (ended_.wait_for(lock, seconds(1), over)) break;
  }
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

}  // namespace plimsoll::report
