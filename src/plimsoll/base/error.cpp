#include "base/error.h"

#include "base/format.h"

namespace plimsoll {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kConfig:
      return "config";
    case ErrorKind::kBudget:
      return "budget";
    case ErrorKind::kModel:
      return "model";
    case ErrorKind::kData:
      return "data";
    case ErrorKind::kIo:
      return "io";
    case ErrorKind::kBackend:
      return "backend";
    case ErrorKind::kInternal:
      return "internal";
  }
  return "unknown";
}

Error::Error(ErrorKind kind, std::string message)
    : kind_(kind), message_(std::move(message)), what_(message_) {}

Error& Error::add_context(std::string frame) {
  what_ += "\n  ";
  what_ += frame;
  context_.push_back(std::move(frame));
  return *this;
}

namespace base {

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  std::string text = fmt::format(
      "internal error: {} ({} does not hold at {}:{}). This is a bug in Plimsoll; please report "
      "it.",
      message, condition, file, line);
  throw Error(ErrorKind::kInternal, std::move(text));
}

}  // namespace base

}  // namespace plimsoll
