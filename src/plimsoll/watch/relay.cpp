#include "watch/relay.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>
#include <climits>
#include <cstdlib>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace plimsoll::watch {
namespace {

constexpr size_t kBlockBytes = 1 << 16;

}  // namespace

Relay::Relay(int target) : target_(target), block_(kBlockBytes, '\0') {
  struct stat status = {};
  bounded_ = ::fstat(target, &status) != 0 || !S_ISREG(status.st_mode);
  if (::isatty(target) == 1 && open_terminal()) return;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_io("pipe", "make", errno);
  source_ = ends[0];
  inlet_ = ends[1];
}

Relay::~Relay() {
  close_inlet();
  close_source();
}

bool Relay::open_terminal() {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0) return false;
  std::array<char, 128> name{};
  if (::grantpt(master) != 0 || ::unlockpt(master) != 0 ||
      ::ptsname_r(master, name.data(), name.size()) != 0) {
    ::close(master);
    return false;
  }
  inlet_ = ::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (inlet_ < 0) {
    ::close(master);
    return false;
  }
  // The real terminal does the translating.
  termios modes = {};
  if (::tcgetattr(inlet_, &modes) == 0) {
    ::cfmakeraw(&modes);
    ::tcsetattr(inlet_, TCSANOW, &modes);
  }
  source_ = master;
  terminal_ = true;
  copy_window_size();
  return true;
}

void Relay::copy_window_size() const {
  winsize size = {};
  if (terminal_ && ::ioctl(target_, TIOCGWINSZ, &size) == 0) {
    ::ioctl(source_, TIOCSWINSZ, &size);
  }
}

void Relay::close_inlet() {
  if (inlet_ >= 0) ::close(std::exchange(inlet_, -1));
}

void Relay::close_source() {
  if (source_ >= 0) ::close(std::exchange(source_, -1));
}

std::string_view Relay::read() {
  const ssize_t got = ::read(source_, block_.data(), block_.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return {};
  if (got <= 0) {  // a pseudo-terminal without users answers EIO
    close_source();
    return {};
  }
  pending_ = std::string_view(block_).substr(0, static_cast<size_t>(got));
  at_line_start_ = pending_.back() == '\n';
  return pending_;
}

void Relay::write() {
  if (pending_.empty()) return;
  const size_t most = bounded_ ? std::min<size_t>(pending_.size(), PIPE_BUF) : pending_.size();
  const ssize_t written = ::write(target_, pending_.data(), most);
  if (written >= 0) {
    pending_.remove_prefix(static_cast<size_t>(written));
  } else if (errno != EINTR && errno != EAGAIN) {
    // Nobody reads any more: the command's next write fails as it would have.
    pending_ = {};
    close_source();
  }
}

}  // namespace plimsoll::watch
