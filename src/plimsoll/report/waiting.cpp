#include "report/waiting.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace plimsoll::report {
namespace {

using std::chrono::seconds;

constexpr seconds kPatience{1};      // of whoever sits at a terminal
constexpr seconds kLogPatience{10};  // of whoever reads a log
constexpr size_t kSecondsWidth = 10;

// A line that is redrawn must not wrap.
std::string fitting(const std::string& what) {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const size_t width = known ? size.ws_col : 80;
  return width > kSecondsWidth ? what.substr(0, width - kSecondsWidth) : what;
}

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

void Waiting::go_on(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

long long Waiting::seconds_passed() const {
  return std::chrono::duration_cast<seconds>(std::chrono::steady_clock::now() - began_).count();
}

void Waiting::tell() {
  const auto over = [this] { return done_; };
  std::unique_lock lock(mutex_);
  if (::isatty(STDERR_FILENO) == 1) {
    if (!ended_.wait_for(lock, kPatience, over)) draw(lock);
    return;
  }
  if (ended_.wait_for(lock, kLogPatience, over)) return;
  do {
    std::fprintf(stderr, "%s, %lld s\n", what_.c_str(), seconds_passed());
  } while (!ended_.wait_for(lock, kLogPatience, over));
  std::fprintf(stderr, "searched for %lld s\n", seconds_passed());
}

void Waiting::draw(std::unique_lock<std::mutex>& lock) {
  while (!done_) {
    std::fprintf(stderr, "\r\x1b[K%s, %lld s", fitting(what_).c_str(), seconds_passed());
    std::fflush(stderr);
    ended_.wait_for(lock, seconds(1), [this] { return done_; });
  }
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

}  // namespace plimsoll::report
