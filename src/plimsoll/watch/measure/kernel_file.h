#pragma once

// Reading the kernel's small text files again and again: no allocation, no exception.
//
// A process may end and a group may vanish between two calls, so every reading is optional: absent
// means "not readable now", never zero. Values are those of the file, units as the kernel writes
// them.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::watch {

// A buffer that files are read into; a reading is valid until the next one.
class KernelFile {
 public:
  static constexpr size_t kMostBytes = 1 << 14;

  // The first kMostBytes of the file; nothing where it cannot be read.
  std::optional<std::string_view> read(const std::string& path);
  // The file's only number. "max" and the like are nothing.
  std::optional<int64_t> read_number(const std::string& path);

 private:
  std::array<char, kMostBytes> buffer_;
};

// Hands on the file's lines, however many, without their ends; lines beyond kMostBytes end it.
// False where it cannot be read.
bool read_kernel_lines(const std::string& path, const std::function<void(std::string_view)>& take);

// Processor time of the calling thread, in seconds: what a look costs, whoever else is running.
double own_cpu_seconds();

// The number after `key` in a line that starts with it: "key value", "key: value kB".
std::optional<int64_t> find_value(std::string_view text, std::string_view key);

// The leading number of `text`, blanks in front of it skipped.
std::optional<int64_t> leading_number(std::string_view text);

// The same of kilobytes, in bytes: never below zero, never above kMostMemory, so that sums of a few
// thousand of them cannot overflow whatever stands there.
constexpr int64_t kMostMemory = int64_t{1} << 50;
int64_t bytes_of_kilobytes(std::optional<int64_t> kilobytes);

}  // namespace plimsoll::watch
