#include "explain/read/exception_line.h"

#include <algorithm>
#include <array>
#include <span>

#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string_view::npos;

// What other languages put in front of the name.
constexpr std::array<std::string_view, 10> kLeads = {
    "Caused by: ",
    "Uncaught ",
    "uncaught ",
    "Unhandled exception. ",
    "Unhandled Exception: ",
    "UnhandledPromiseRejection: ",
    "ERROR: LoadError: ",
    "Fatal error: Uncaught exception ",
    "terminating due to uncaught exception of type ",
    "terminating with uncaught exception of type ",
};

constexpr std::array<std::string_view, 2> kEndings = {"Error", "Exception"};
// After the name of a module, where a lower-case part precedes it.
constexpr std::array<std::string_view, 10> kModuleEndings = {
    "Invalid",  "Argument",   "Fail",    "Failure",        "Fault",
    "NotFound", "NoSuchFile", "Timeout", "NotImplemented", "Violation"};

bool ends_with_any(std::string_view name, std::span<const std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [name](std::string_view ending) { return name.ends_with(ending); });
}

// "Exception in thread "main" java.lang.…"
size_t after_thread(std::string_view line) {
  constexpr std::string_view kThread = "Exception in thread \"";
  if (!line.starts_with(kThread)) return 0;
  const size_t end = line.find("\" ", kThread.size());
  return end == npos ? 0 : end + 2;
}

size_t after_lead(std::string_view line) {
  if (line.starts_with("libc++abi: ")) {
    const size_t own = std::string_view("libc++abi: ").size();
    const size_t more = after_lead(line.substr(own));
    return more == 0 ? 0 : own + more;
  }
  for (std::string_view lead : kLeads) {
    if (line.starts_with(lead)) return lead.size();
  }
  return after_thread(line);
}

// The name at the beginning of `line`, or nothing.
std::string_view name_at_front(std::string_view line, bool is_led) {
  size_t end = 0;
  size_t last = 0;  // where the part after the last point or colons begins
  for (; end < line.size(); ++end) {
    const bool colons = line.substr(end, 2) == "::" && end > 0;
    if (line[end] == '.' || colons) {
      end += colons ? 1 : 0;
      last = end + 1;
    } else if (!is_word(line[end])) {
      break;
    }
  }
  if (end - last < 4 || end > 120) return {};
  const std::string_view own = line.substr(last, end - last);
  const bool ends = end == line.size() || line[end] == ':' || (is_led && line[end] == ' ');
  if (!ends || !is_alpha(own.front())) return {};
  const bool capital = own.front() >= 'A' && own.front() <= 'Z';
  const bool scoped = last > 0 && line.substr(0, end).find("::") != npos;
  const bool in_module = last > 1 && !scoped && line.front() >= 'a' && line.front() <= 'z';
  if (is_led && (capital || scoped)) return line.substr(0, end);
  // "cv2.error", "zlib.error"
  if (in_module && own == "error") return line.substr(0, end);
  if (!capital) return {};
  const bool named = ends_with_any(own, kEndings) || own == "StopIteration" ||
                     (in_module && ends_with_any(own, kModuleEndings));
  if (!named) return {};
  // "ValueError: if the batch is empty" is a manual, "RMSError: 0.31" a measurement.
  const std::string_view rest = line.substr(end);
  const size_t figure_end = rest.find_first_not_of("0123456789", 2);
  const bool measures = rest.size() > 2 && is_digit(rest[2]) && figure_end != npos &&
                        rest[figure_end] == '.' && figure_end + 1 < rest.size() &&
                        is_digit(rest[figure_end + 1]);
  if (measures) return {};
  if (rest.starts_with(": if ") || rest.starts_with(": If ") || rest.starts_with(": when ")) {
    return {};
  }
  return line.substr(0, end);
}

// "panic: runtime error: …" of Go, "thread 'main' panicked at src/main.rs:3:5:" of Rust
std::string_view panic_name(std::string_view line) {
  if (line.starts_with("panic: ")) return line.substr(0, 5);
  const size_t panicked = line.find("' panicked at ");
  if (!line.starts_with("thread '") || panicked == npos) return {};
  return line.substr(panicked + 2, 8);
}

}  // namespace

std::string_view exception_name(std::string_view line) {
  if (const std::string_view name = panic_name(line); !name.empty()) return name;
  const size_t lead = after_lead(line);
  if (lead > 0) return name_at_front(line.substr(lead), true);
  if (const std::string_view name = name_at_front(line, false); !name.empty()) return name;
  // "12/478 [01:02<01:19, 3.37it/s]ValueError: …"
  for (size_t at = line.find(']'); at != npos; at = line.find(']', at + 1)) {
    const std::string_view name = name_at_front(line.substr(at + 1), false);
    if (!name.empty()) return name;
  }
  return {};
}

bool may_name_exception(std::string_view text) {
  for (std::string_view ending : {"Error", "Exception", "exception"}) {
    for (size_t at = text.find(ending); at != npos; at = text.find(ending, at + 1)) {
      const size_t end = at + ending.size();
      if (end == text.size()) return true;
      if (ending == "exception") {
        if (text[end] == ' ' || text[end] == '.') return true;
      } else if (text[end] == ':' || text[end] == '\r' || text[end] == ' ' || text[end] == '\\' ||
                 text[end] == '"') {
        return true;
      }
    }
  }
  if (text.find("panic") != npos || text.find(".error: ") != npos) return true;
  // Names of modules' own errors
  const size_t colon = text.find(": ");
  return colon != npos && ends_with_any(text.substr(0, colon), kModuleEndings);
}

bool is_wish(std::string_view exception) {
  return exception.ends_with("KeyboardInterrupt") || exception.ends_with("SystemExit") ||
         exception.ends_with("GeneratorExit");
}

bool is_consequence(std::string_view exception) {
  static constexpr std::array<std::string_view, 19> kConsequences = {
      "DistBackendError",       "ChildFailedError",
      "BrokenPipeError",        "EOFError",
      "ConnectionResetError",   "ProcessRaisedException",
      "CalledProcessError",     "DistNetworkError",
      "ProcessExitedException", "DistStoreError",
      "ncclRemoteError",        "WorkerCrashedError",
      "ActorDiedError",         "RayActorError",
      "NodeDiedError",          "BrokenProcessPool",
      "KilledWorker",           "TerminatedWorkerError",
      "ActorUnavailableError"};
  return ends_with_any(exception, kConsequences);
}

}  // namespace plimsoll::explain
