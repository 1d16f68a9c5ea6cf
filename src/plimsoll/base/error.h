#pragma once

// The one exception type of Plimsoll.
//
// Exceptions are for failures; outcomes that a caller is expected to handle (a plan that does not
// fit, a validator's verdict) are return values. A message says where — expected — received — next
// step. Context frames are added on the way up ("while importing layer conv2d_3"); the innermost
// frame comes first.

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll {

enum class ErrorKind {
  kConfig,    // an option or call that makes no sense (exit code 2)
  kBudget,    // the limit cannot be met; thrown by fit only (exit code 3)
  kModel,     // a model that is refused or invalid (exit code 4)
  kData,      // data that is malformed, out of range or not finite (exit code 5)
  kIo,        // a file or device failed (exit code 6)
  kBackend,   // a vendor's library failed (exit code 6)
  kInternal,  // our bug (exit code 70)
};

std::string_view to_string(ErrorKind kind);

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message);

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::vector<std::string>& context() const { return context_; }

  // Adds an outer frame, e.g. "while reading weights.h5".
  Error& add_context(std::string frame);

  // The message followed by one line per context frame.
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
  std::vector<std::string> context_;
  std::string what_;
};

// Runs `body`; an Error that leaves it gets `frame` as a further context frame.
template <typename Body>
decltype(auto) with_context(std::string_view frame, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (Error& error) {
    error.add_context(std::string(frame));
    throw;
  }
}

namespace base {
[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& message);
}  // namespace base

}  // namespace plimsoll

// For our own bugs: always on, throws kInternal with file:line. Never reachable from user input.
#define PLIMSOLL_CHECK(condition, message)                                       \
  do {                                                                           \
    if (!(condition)) {                                                          \
      ::plimsoll::base::check_failed(#condition, __FILE__, __LINE__, (message)); \
    }                                                                            \
  } while (false)
