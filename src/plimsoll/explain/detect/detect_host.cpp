// Host memory refused inside a process: numpy, C++, fork, a bare MemoryError.

#include <utility>

#include "explain/detect/case.h"
#include "explain/detect/facts.h"
#include "explain/read/code_line.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

Finding host_finding(Family family, size_t at) {
  Finding finding;
  finding.family = family;
  finding.resource = Resource::kHostMemory;
  finding.at = at;
  return finding;
}

// Unable to allocate [41.2 GiB for ][an ]array with shape|form (172928, 32001) and data type
// float64
void detect_numpy(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "unable to allocate ";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    Cursor cursor(document, document.match(kPhrase, at));
    Finding finding = host_finding(Family::kNumpyMemoryError, at);
    finding.framework = "numpy";
    const std::optional<Size> size = cursor.size();
    if (size) set_size(finding, *size);
    const size_t end = document.record_end(at);
    const size_t array = document.find("array", cursor.at(), end);
    const bool numpy = array != npos && array < cursor.at() + 40;
    if (!numpy && document.find_back("memoryerror", at, 80) == npos) continue;
    // The shape stands in the first brackets, whatever the words in front of it are.
    if (const size_t open = document.find("(", cursor.at(), end); open != npos) {
      cursor.move_to(open);
      finding.shape = cursor.shape();
    }
    for (std::string_view label : {"data type ", "dtype "}) {
      const size_t type = document.find(label, cursor.at(), end);
      if (type == npos) continue;
      Cursor value(document, document.match(label, type));
      finding.dtype = value.word(" \"'`,.)", is_type_name);
      break;
    }
    add_finding(facts, std::move(finding));
  }
}

// "MemoryError" alone: the array expression above it is all there is.
void detect_bare(const Document& document, Facts& facts) {
  for (const Finding& known : facts.findings) {
    if (known.family == Family::kNumpyMemoryError || known.family == Family::kTorchCpu) return;
  }
  constexpr std::string_view kName = "memoryerror";
  for (size_t at = document.find(kName); at != npos; at = document.find(kName, at + 1)) {
    if (at > 0 && (is_word(document.text()[at - 1]) || document.text()[at - 1] == '_')) {
      // cudaMemoryError, OutOfMemoryError and _ArrayMemoryError are other names.
      continue;
    }
    const size_t end = document.match(kName, at);
    const char next = end < document.text().size() ? document.text()[end] : '\n';
    if (next != '\n' && next != kSoftBreak && next != ':' && next != ' ' && next != '\'' &&
        next != '"')
      continue;
    if (document.text().compare(at, 11, "MemoryError") != 0 && next != '\n') continue;
    const std::string_view line = document.line(document.line_index(at));
    if (line.find("except") != npos || line.find("raise ") != npos) continue;  // code, not output
    if (document.is_after_words(at)) continue;
    Finding finding = host_finding(Family::kMemoryErrorBare, at);
    constexpr std::string_view kAsked = "allocate ";
    if (const size_t asked = document.find(kAsked, end, document.record_end(at)); asked != npos) {
      Cursor cursor(document, document.match(kAsked, asked));
      if (const std::optional<Size> size = cursor.size()) set_size(finding, *size);
    }
    if (const std::optional<CodeLine> code = code_above(document, at)) {
      finding.shape = code->shape;
      finding.dtype = code->dtype;
    }
    add_finding(facts, std::move(finding));
  }
}

// "throw std::bad_alloc();", "catch (const std::bad_alloc& e)": source, not output.
bool is_source(const Document& document, size_t at, size_t end) {
  const std::string& text = document.text();
  const char next = end < text.size() ? text[end] : '\n';
  return next == '(' || next == '&' || document.find_back("throw ", at, 8) != npos ||
         document.find_back("catch (", at, 16) != npos;
}

void detect_bad_alloc(const Document& document, Facts& facts) {
  for (std::string_view phrase : {"std::bad_alloc", "bad allocation", "std::bad_array_new_length",
                                  "c error: out of memory"}) {
    for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
      if (is_source(document, at, document.match(phrase, at))) continue;
      add_finding(facts, host_finding(Family::kBadAlloc, at));
    }
  }
}

// A mapping that is small where memory is counted is refused for the number of mappings: one file
// per shared tensor fills vm.max_map_count with a few GiB in use.
void tell_mapping(const Document& document, size_t at, Finding& finding) {
  constexpr int64_t kSmall = int64_t{16} << 20;
  const bool shared = document.find_back("</torch_", at, 120) != npos;
  finding.note = "mmap";
  if (!finding.bytes || *finding.bytes > (shared ? kSmall : kSmall >> 8)) return;
  finding.family = Family::kProcessLimit;
  finding.resource = Resource::kOther;
  finding.note = "map_count";
}

void detect_errno12(const Document& document, Facts& facts) {
  for (std::string_view phrase : {"[errno 12]", "cannot allocate memory"}) {
    for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
      if (document.find_back("defaultcpuallocator", at, 300) != npos) continue;
      if (document.find_back("you tried to allocate", at, 200) != npos) continue;
      if (document.find("in static tls block", at, at + 60) != npos) continue;
      // Only the locking was refused; the program works without it.
      if (document.find_back("mlock", at, 120) != npos) continue;
      Finding finding = host_finding(Family::kErrno12, at);
      const size_t fork = document.find_back("os.fork", at, 400);
      if (fork != npos || document.find_back("fork:", at, 20) != npos) {
        finding.op = "os.fork";
        finding.note = "fork";
      } else if (const size_t map = document.find_back("unable to mmap ", at, 200); map != npos) {
        Cursor cursor(document, document.match("unable to mmap ", map));
        if (const std::optional<Size> size = cursor.size()) set_size(finding, *size);
        tell_mapping(document, at, finding);
      } else if (document.find_back("map failed", at, 60) != npos) {
        tell_mapping(document, at, finding);
      }
      // Whoever looked at the number of mappings, and put it into the log, had a reason.
      if (finding.note.empty() && document.find("vm.max_map_count") != npos &&
          document.find_back("mmap", at, 400) != npos) {
        finding.family = Family::kProcessLimit;
        finding.resource = Resource::kOther;
        finding.note = "map_count";
      }
      add_finding(facts, std::move(finding));
      return;
    }
  }
}

// The loader's words for a refused mapping; with a reason after them when it is another.
void detect_mapping(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "failed to map segment from shared object";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    const size_t end = document.match(kPhrase, at);
    const bool reason = document.text().compare(std::min(end, document.text().size()), 1, ":") == 0;
    if (reason && document.match(": cannot allocate memory", end) == npos) continue;
    Finding finding = host_finding(Family::kErrno12, at);
    finding.note = "library";
    add_finding(facts, std::move(finding));
    return;
  }
}

}  // namespace

void detect_host(const Document& document, Facts& facts) {
  detect_numpy(document, facts);
  detect_bare(document, facts);
  detect_bad_alloc(document, facts);
  detect_errno12(document, facts);
  detect_mapping(document, facts);
}

}  // namespace plimsoll::explain
