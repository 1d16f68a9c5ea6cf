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

void Waiting::go_on(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
  ended_.notify_all();
}

void Waiting::tell() {
  const auto over = [this] { return done_; };
  std::unique_lock lock(mutex_);
  if (::isatty(STDERR_FILENO) == 1) {
    if (!ended_.wait_for(lock, kPatience, over)) draw(lock);
    return;
  }
  if (ended_.wait_for(lock, kLogPatience, over)) return;
  std::fprintf(stderr, "%s takes longer than %d s\n", what_.c_str(),
               static_cast<int>(kLogPatience.count()));
  while (!done_) {
    const std::string told = what_;
    ended_.wait(lock, [&] { return done_ || what_ != told; });
    if (!done_) std::fprintf(stderr, "%s\n", what_.c_str());
  }
}

void Waiting::draw(std::unique_lock<std::mutex>& lock) {
  for (auto now = kPatience; !done_; now += seconds(1)) {
    std::fprintf(stderr, "\r\x1b[K%s … %d s", what_.c_str(), static_cast<int>(now.count()));
    std::fflush(stderr);
    ended_.wait_for(lock, seconds(1), [this] { return done_; });
  }
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

}  // namespace plimsoll::report
