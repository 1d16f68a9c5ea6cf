#include "watch/measure/kernel_file.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace plimsoll::watch {

std::optional<std::string_view> KernelFile::read(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  size_t length = 0;
  while (length < buffer_.size()) {
    const ssize_t got = ::read(descriptor, buffer_.data() + length, buffer_.size() - length);
    if (got < 0 && length == 0) {
      ::close(descriptor);
      return std::nullopt;
    }
    if (got <= 0) break;
    length += static_cast<size_t>(got);
  }
  ::close(descriptor);
  return std::string_view(buffer_.data(), length);
}

bool read_kernel_lines(const std::string& path, const std::function<void(std::string_view)>& take) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  std::array<char, KernelFile::kMostBytes> buffer;
  size_t kept = 0;
  while (true) {
    const ssize_t got = ::read(descriptor, buffer.data() + kept, buffer.size() - kept);
    if (got <= 0) break;
    std::string_view text(buffer.data(), kept + static_cast<size_t>(got));
    for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      take(text.substr(0, end));
      text.remove_prefix(end + 1);
    }
    if (text.size() == buffer.size()) break;
    std::copy(text.begin(), text.end(), buffer.begin());
    kept = text.size();
  }
  ::close(descriptor);
  return true;
}

std::optional<int64_t> KernelFile::read_number(const std::string& path) {
  const std::optional<std::string_view> text = read(path);
  return text ? leading_number(*text) : std::nullopt;
}

double own_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::optional<int64_t> leading_number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

int64_t bytes_of_kilobytes(std::optional<int64_t> kilobytes) {
  return std::clamp<int64_t>(kilobytes.value_or(0), 0, kMostMemory / 1024) * 1024;
}

std::optional<int64_t> find_value(std::string_view text, std::string_view key) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(key) || line.size() <= key.size()) continue;
    line.remove_prefix(key.size());
    if (line.front() != ':' && line.front() != ' ' && line.front() != '\t') continue;
    line.remove_prefix(1);
    return leading_number(line);
  }
  return std::nullopt;
}

}  // namespace plimsoll::watch
