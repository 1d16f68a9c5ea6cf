// Refusals in words that no other detector knows: what a program says in general when memory is not
// to be had, where nothing else of the kind was read. Only what stands as a message counts: at the
// end of a sentence or after a colon, and without a word that makes it a condition, a plan or a
// warning.

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "explain/detect/facts.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"
#include "explain/read/series_form.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

constexpr std::array<std::string_view, 18> kPhrases = {"out of memory",
                                                       "out-of-memory",
                                                       "outofmemoryerror",
                                                       "memory exhausted",
                                                       "no more memory",
                                                       "not enough memory",
                                                       "insufficient memory",
                                                       "heap exhausted",
                                                       "memory allocation failed",
                                                       "allocation of memory failed",
                                                       "failed to allocate memory",
                                                       "unable to allocate memory",
                                                       "could not allocate memory",
                                                       "failed to allocate workspace",
                                                       "memory allocation failure",
                                                       "nomemoryerror",
                                                       "enomem",
                                                       "out_of_memory"};

// Beside a phrase they say that nothing was refused, or not yet.
constexpr std::array<std::string_view, 41> kConditions = {
    "avoid",    "prevent", " may ",     " might ",      " could lead", " can lead", " if ",
    "in case",  " when ",  " would ",   "unless",       "handler",     " handle",   "killer",
    "caught",   "test",    "--",        "=false",       " risk",       "catch",     "except ",
    "raise ",   "throw ",  "return ",   " on out ",     "detect",      " protect",  "likely",
    "possibly", "ignor",   "fallback",  "falling back", "retry",       "warning",   "skipping",
    "to fix",   "// ",     "changelog", "readme",       "advice",      "means"};

constexpr std::array<std::string_view, 24> kDeviceWords = {
    "cuda",  "gpu",   "hip",    "vram",  "hbm",    "device memory", "metal",      "mps",
    "nvenc", "nvdec", "cublas", "cudnn", "opencl", "vulkan",        "level_zero", "sycl",
    "xpu",   "npu",   "tpu",    "d3d",   "dx12",   "directml",      "miopen",     "rocm"};

bool contains(std::string_view text, std::string_view phrase) {
  return find_ignoring_case(text, phrase) != npos;
}

// A word of the hardware, not a part of another: "chip" holds "hip".
bool names_device(std::string_view text) {
  return std::any_of(kDeviceWords.begin(), kDeviceWords.end(), [text](std::string_view word) {
    for (size_t at = find_ignoring_case(text, word); at != npos;
         at = find_ignoring_case(text, word, at + 1)) {
      if (at == 0 || !is_alpha(text[at - 1])) return true;
    }
    return false;
  });
}

size_t after_blanks(std::string_view line, size_t at) {
  while (at < line.size() && (line[at] == ' ' || line[at] == kSoftBreak)) ++at;
  return at;
}

bool continues_with(std::string_view line, size_t at, std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return equals_ignoring_case(line.substr(std::min(at, line.size()), word.size()), word);
  });
}

// The phrase is the message itself: the end of a sentence, or its beginning that goes on with what
// was being done.
bool is_message(std::string_view line, size_t at, size_t end) {
  static constexpr std::array<std::string_view, 11> kGoesOn = {
      "while", "when", "during", "trying",    "alloc",    "in ",
      "on ",   "for ", "to ",    "resources", "available"};
  static constexpr std::array<std::string_view, 5> kNegations = {": no", ": 0", ": false", "=0",
                                                                 "= 0"};
  static constexpr std::array<std::string_view, 3> kHabits = {" run", " runs", " running"};
  const bool in_name = (at > 0 && line[at - 1] == '_') || (end < line.size() && line[end] == '_');
  if (in_name || continues_with(line, end, kNegations)) return false;
  size_t front = at;
  while (front > 0 && (line[front - 1] == ' ' || line[front - 1] == kSoftBreak)) --front;
  const std::string_view before = line.substr(0, front);
  if (std::any_of(kHabits.begin(), kHabits.end(),
                  [before](std::string_view word) { return before.ends_with(word); })) {
    return false;
  }
  const size_t next = after_blanks(line, end);
  const bool closes = end >= line.size() ||
                      std::string_view(".!:;,)(['\"").find(line[end]) != npos ||
                      (next < line.size() && line[next] == '(');
  const bool opens = front == 0 || std::string_view(":])(=>!-*'\"").find(line[front - 1]) != npos;
  return closes || (opens && continues_with(line, next, kGoesOn));
}

bool is_conditional(std::string_view line) {
  return std::any_of(kConditions.begin(), kConditions.end(),
                     [line](std::string_view word) { return contains(line, word); });
}

// The figure that stands after the phrase in its line, with a unit: what was asked for.
void read_request(const Document& document, size_t from, size_t to, Finding& finding) {
  for (std::string_view label :
       {"requested ", "allocate ", "allocating ", "size ", "size: ", "need ", "asked for "}) {
    const size_t at = document.find(label, from, to);
    if (at == npos) continue;
    Cursor cursor(document, document.match(label, at));
    const std::optional<Size> size = cursor.size();
    if (!size) continue;
    return set_size(finding, *size);
  }
}

bool is_read(const Facts& facts, size_t at) {
  return is_read_near(facts, at, 2000, [](const Reading& known) {
    return known.family < Family::kKilled || known.family == Family::kTfCpuWarning;
  });
}

// The line, with what a wrap cut from it.
std::string_view record_at(const Document& document, size_t at) {
  const size_t begin = document.record_start(at);
  return std::string_view(document.text()).substr(begin, document.record_end(at) - begin);
}

// The refusal that was read last in the words of one phrase. Another one that differs in numbers
// alone, or in its size, is one more of a series, however near it stands.
struct Previous {
  bool found = false;
  uint64_t form = 0;
  std::optional<int64_t> bytes;
};

bool is_of_series(const Document& document, size_t at, const Previous& previous,
                  const std::optional<Size>& size) {
  if (!previous.found) return false;
  const bool other_size = size && previous.bytes && size->bytes != *previous.bytes;
  return other_size || series_form(record_at(document, at)) == previous.form;
}

// Whether what stands at `at` tells of a refusal that nobody has read yet.
bool is_new_refusal(const Document& document, const Facts& facts, size_t at,
                    const Previous& previous, const std::optional<Size>& size = std::nullopt) {
  const size_t index = document.line_index(at);
  if (document.is_quiet(index) || document.is_quoted(at)) return false;
  if (is_read(facts, at) && !is_of_series(document, at, previous, size)) return false;
  return !is_conditional(record_at(document, at));
}

Finding refusal(const Document& document, size_t at) {
  const size_t index = document.line_index(at);
  const bool next =
      index + 1 < document.line_count() && document.number(index + 1) - document.number(index) <= 1;
  const std::string_view record = record_at(document, at);
  const bool device = names_device(record) || contains(record, " on device ") ||
                      (next && names_device(document.line(index + 1)));
  Finding finding;
  finding.at = at;
  finding.family = device ? Family::kOtherGpu : Family::kOtherHost;
  finding.resource = device ? Resource::kGpuMemory : Resource::kHostMemory;
  return finding;
}

void keep(const Document& document, Facts& facts, Finding finding, Previous& previous) {
  previous = {true, series_form(record_at(document, finding.at)), finding.bytes};
  add_finding(facts, std::move(finding));
}

// "could not allocate 4294967296 bytes of …": the figure makes it one.
void detect_figures(const Document& document, Facts& facts) {
  for (std::string_view phrase : {"cannot allocate ", "can't allocate ", "could not allocate ",
                                  "unable to allocate ", "failed to allocate "}) {
    Previous previous;
    for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
      Cursor cursor(document, document.match(phrase, at));
      const std::optional<Size> size = cursor.size();
      if (!size || !is_new_refusal(document, facts, at, previous, size)) continue;
      Finding finding = refusal(document, at);
      set_size(finding, *size);
      keep(document, facts, std::move(finding), previous);
    }
  }
}

}  // namespace

void detect_generic(const Document& document, Facts& facts) {
  detect_figures(document, facts);
  for (std::string_view phrase : kPhrases) {
    Previous previous;
    for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
      if (!is_new_refusal(document, facts, at, previous)) continue;
      const size_t begin = document.start(document.line_index(at));
      const std::string_view line = document.line(document.line_index(at));
      if (!is_message(line, at - begin, document.match(phrase, at) - begin)) continue;
      Finding finding = refusal(document, at);
      read_request(document, begin, document.record_end(at), finding);
      keep(document, facts, std::move(finding), previous);
    }
  }
}

}  // namespace plimsoll::explain
