// How a program ended for no want of memory: an exception that nobody caught, a fault of the
// device, a signal. One after which the log goes on did not end it.

#include <algorithm>
#include <array>
#include <utility>

#include "explain/detect/facts.h"
#include "explain/read/cursor.h"
#include "explain/read/exception_line.h"
#include "explain/read/number.h"
#include "explain/read/shell_line.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

// What a traceback may have after it: launchers' summaries, other ranks' words, farewells.
constexpr int64_t kMostAfter = 100;

bool contains(std::string_view text, std::string_view phrase) {
  return find_ignoring_case(text, phrase) != npos;
}

// Progress after `line` that is further than all before it, or further progress of any form.
bool goes_on(const Facts& facts, int64_t line) {
  if (std::any_of(facts.further_progress.begin(), facts.further_progress.end(),
                  [line](const FurtherProgress& further_progress) {
                    return further_progress.line > line;
                  })) {
    return true;
  }
  std::pair<int64_t, int64_t> farthest{-1, -1};
  for (const Progress& progress : facts.context.progress) {
    const std::pair<int64_t, int64_t> now{progress.epoch.value_or(0), progress.step.value_or(0)};
    if (progress.line > line && now > farthest) return true;
    farthest = std::max(farthest, now);
  }
  return false;
}

Finding ending(Family family, size_t at, std::string note) {
  Finding finding;
  finding.family = family;
  const bool unsaid = family == Family::kCrash || is_consequence(note);
  finding.resource = unsaid ? Resource::kNone : Resource::kOther;
  finding.at = at;
  finding.note = std::move(note);
  return finding;
}

// Whether a refusal that another detector read is what `from` to `to` is about.
bool is_refusal(const Facts& facts, size_t from, size_t to) {
  const auto known = facts.read.lower_bound(from);
  return known != facts.read.end() && known->first <= to;
}

// Words beside a traceback that say that it was caught.
bool says_caught(std::string_view line) {
  static constexpr std::string_view kWords[] = {
      "warning",      "ignor",    "skipping",  "caught",   "retry",
      "falling back", "fallback", "continue",  "continu",  "without",
      "disabled",     "default",  "in thread", "optional", "logging error"};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [line](std::string_view word) { return contains(line, word); });
}

struct Traceback {
  size_t head = 0;   // lines of the document
  size_t error = 0;  // the line that names the exception
  std::string name;
};

// The exception after the frames that begin at `head`.
std::optional<Traceback> read_traceback(const Document& document, size_t head) {
  constexpr int64_t kMostLines = 400;
  for (size_t i = head + 1; i < document.line_count(); ++i) {
    const std::string_view line = document.line(i);
    if (document.number(i) - document.number(head) > kMostLines) break;
    if (contains(line, "traceback (most")) break;
    if (contains(line, "file \"")) continue;
    const std::string_view name = raised_name(line);
    if (!name.empty()) return Traceback{head, i, std::string(name)};
  }
  return std::nullopt;
}

bool was_caught(const Document& document, const Traceback& traceback) {
  if (traceback.head > 0) {
    const bool next = document.number(traceback.head) - document.number(traceback.head - 1) <= 1;
    if (next && says_caught(document.line(traceback.head - 1))) return true;
  }
  if (says_caught(document.line(traceback.head))) return true;
  for (size_t i = traceback.error + 1; i < document.line_count() && i < traceback.error + 4; ++i) {
    if (document.number(i) - document.number(traceback.error) > 4) break;
    if (says_caught(document.line(i))) return true;
  }
  return false;
}

// Whether it is too far from the end of the log, or the program went on after it.
bool was_survived(const Facts& facts, int64_t line, int64_t lines) {
  return lines - line > kMostAfter || goes_on(facts, line);
}

// The lines that name their exceptions, whatever became of them.
std::vector<size_t> detect_tracebacks(const Document& document, int64_t lines, Facts& facts) {
  std::vector<size_t> named;
  for (size_t i = 0; i < document.line_count(); ++i) {
    if (!contains(document.line(i), "traceback (most")) continue;
    const std::optional<Traceback> found = read_traceback(document, i);
    if (!found) continue;
    named.push_back(found->error);
    if (is_wish(found->name) || was_caught(document, *found)) continue;
    const size_t at = document.start(found->error);
    if (was_survived(facts, document.number(found->error), lines)) continue;
    if (is_refusal(facts, document.start(i), document.record_end(at))) continue;
    facts.endings.push_back(ending(Family::kProgramError, at, found->name));
  }
  return named;
}

// Words within a line without a traceback, or beside it, that say that it was caught.
bool says_survived(std::string_view line) {
  static constexpr std::string_view kWords[] = {
      "warning",          "ignor",         "skipping",   "caught",        "retry",
      "falling back",     "fallback",      "continuing", "using default", "using the default",
      "in thread thread", "logging error", "finished",   "completed",     "complete.",
      "success",          "all done"};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [line](std::string_view word) { return contains(line, word); });
}

bool stands_among_survivors(const Document& document, size_t index) {
  const int64_t number = document.number(index);
  if (index > 0 && number - document.number(index - 1) <= 1 &&
      says_survived(document.line(index - 1))) {
    return true;
  }
  for (size_t i = index; i < document.line_count() && i < index + 4; ++i) {
    if (document.number(i) - number > 4) break;
    // "uncaught" says the opposite.
    if (says_survived(document.line(i)) && !contains(document.line(i), "uncaught")) return true;
  }
  return false;
}

// The exception's line alone: of a log that was cut, or searched for lines.
void detect_bare_exceptions(const Document& document, const std::vector<size_t>& named,
                            int64_t lines, Facts& facts) {
  for (size_t i = 0; i < document.line_count(); ++i) {
    const std::string_view line = document.line(i);
    const std::string_view name = exception_name(line);
    if (name.empty() || is_wish(name) || document.is_quiet(i)) continue;
    if (std::find(named.begin(), named.end(), i) != named.end()) continue;
    if (was_survived(facts, document.number(i), lines)) continue;
    const size_t at = document.start(i);
    if (stands_among_survivors(document, i)) continue;
    if (is_refusal(facts, at, document.record_end(at))) continue;
    facts.endings.push_back(ending(Family::kProgramError, at, std::string(name)));
  }
}

// terminate called after throwing an instance of 'std::runtime_error'
void detect_terminate(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "terminate called after throwing an instance of ";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    Cursor cursor(document, document.match(kPhrase, at));
    cursor.literal("'");
    const std::string name = cursor.until("'\n ", 80);
    if (name.empty() || is_refusal(facts, at, document.record_end(at) + 300)) continue;
    facts.endings.push_back(ending(Family::kProgramError, at, name));
  }
}

// What CUDA and ROCm say of a kernel that did what it may not, or of a broken or unfit device.
void detect_device_faults(const Document& document, Facts& facts) {
  for (std::string_view phrase :
       {"an illegal memory access was encountered", "device-side assert triggered",
        "unspecified launch failure", "uncorrectable ecc error encountered",
        "no kernel image is available for execution", "misaligned address",
        "an illegal instruction was encountered", "memory access fault by gpu",
        "hsa_status_error_memory_aperture_violation", "mmu fault", "gpu has fallen off the bus",
        "gpu timeout error", "error_device_lost", "dxgi_error_device_removed", "(887a0005)"}) {
    for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
      if (document.is_after_words(at) || document.is_quoted(at)) continue;
      if (goes_on(facts, document.number_at(at))) continue;
      facts.endings.push_back(ending(Family::kDeviceFault, at, std::string(phrase)));
    }
  }
}

struct Signal {
  std::string_view word;
  std::string_view name;
};
// As the C library names them.
constexpr std::array<Signal, 4> kSignals = {{{"Segmentation fault", "SIGSEGV"},
                                             {"Aborted", "SIGABRT"},
                                             {"Illegal instruction", "SIGILL"},
                                             {"Floating point exception", "SIGFPE"}}};

constexpr Signal kSignalPhrases[] = {
    {"fatal python error: segmentation fault", "SIGSEGV"},
    {"fatal python error: aborted", "SIGABRT"},
    {"interrupted by signal 11", "SIGSEGV"},
    {"terminated by signal 11", "SIGSEGV"},
    {"signal 11 (sigsegv)", "SIGSEGV"},
    {"signal 11: sigsegv", "SIGSEGV"},
    {"signals.sigsegv", "SIGSEGV"},
    {"signals.sigabrt", "SIGABRT"},
    {"killed by signal: segmentation fault", "SIGSEGV"},
    {"killed by signal: aborted", "SIGABRT"},
    {"signal: segmentation fault", "SIGSEGV"},
    {"signal: aborted", "SIGABRT"},
    {"{sigsegv(-11)", "SIGSEGV"},
    {"{sigabrt(-6)", "SIGABRT"},
    {"(0xc0000005)", "an access violation"},
    {"code 3221225477", "an access violation"},
    {"code -1073741819", "an access violation"},
    {"(0xc00000fd)", "a stack overflow"},
    {"code 3221225725", "a stack overflow"},
    {"code -1073741571", "a stack overflow"},
    {"(0xc0000409)", "a damaged stack"},
    {"code 3221226505", "a damaged stack"},
    {"exit code 139", "SIGSEGV"},
    {"exit status 139", "SIGSEGV"},
    {"exitcode: -11", "SIGSEGV"},
    {"exitcode : -11", "SIGSEGV"},
    {"exitcode: -6", "SIGABRT"},
    {"exitcode : -6", "SIGABRT"},
};

// The name of the signal that a shell speaks of in this line.
std::string_view signal_of_shell(std::string_view line) {
  for (const Signal& signal : kSignals) {
    if (is_shell_word(line, signal.word)) return signal.name;
    std::string lower(signal.word);
    std::transform(lower.begin(), lower.end(), lower.begin(), to_lower);
    if (is_job_line(line, lower)) return signal.name;
  }
  return {};
}

void detect_crashes(const Document& document, Facts& facts) {
  for (const Signal& phrase : kSignalPhrases) {
    const size_t at = document.find(phrase.word);
    if (at == npos || document.is_quoted(at)) continue;
    if (goes_on(facts, document.number_at(at))) continue;
    // "Exit code 139 means …" of a manual, "exit code 1390".
    const size_t end = document.match(phrase.word, at);
    const std::string_view rest = std::string_view(document.text()).substr(end, 24);
    if (contains(rest, "means") || contains(rest, "indicates")) continue;
    if (!rest.empty() && is_digit(rest.front())) continue;
    facts.endings.push_back(ending(Family::kCrash, at, std::string(phrase.name)));
  }
  for (size_t i = 0; i < document.line_count(); ++i) {
    const std::string_view name = signal_of_shell(document.line(i));
    if (name.empty()) continue;
    facts.endings.push_back(ending(Family::kCrash, document.start(i), std::string(name)));
  }
}

}  // namespace

std::string_view raised_name(std::string_view line) {
  size_t end = 0;
  size_t last = 0;  // where the part after the last point begins
  for (; end < line.size() && (is_word(line[end]) || line[end] == '.'); ++end) {
    if (line[end] == '.') last = end + 1;
  }
  const bool named = last < end && line[last] >= 'A' && line[last] <= 'Z' && end - last > 2;
  const bool ends = end == line.size() || line[end] == ':';
  return named && ends ? line.substr(0, end) : std::string_view();
}

void detect_endings(const Document& document, int64_t lines, Facts& facts) {
  detect_device_faults(document, facts);
  const std::vector<size_t> named = detect_tracebacks(document, lines, facts);
  detect_bare_exceptions(document, named, lines, facts);
  detect_terminate(document, facts);
  detect_crashes(document, facts);
  std::stable_sort(facts.endings.begin(), facts.endings.end(),
                   [](const Finding& a, const Finding& b) { return a.at < b.at; });
}

}  // namespace plimsoll::explain
