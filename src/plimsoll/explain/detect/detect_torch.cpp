// PyTorch on CUDA, HIP, XPU, NPU, MPS and CPU, all eras of the message.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <utility>

#include "base/format.h"
#include "explain/detect/case.h"
#include "explain/detect/facts.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

Finding torch_finding(Family family, size_t at) {
  Finding finding;
  finding.family = family;
  finding.framework = "pytorch";
  finding.resource = Resource::kGpuMemory;
  finding.at = at;
  return finding;
}

// The size directly after or directly before `phrase` within [from, to).
std::optional<int64_t> size_after(const Document& document, std::string_view phrase, size_t from,
                                  size_t to) {
  const size_t at = document.find(phrase, from, to);
  if (at == npos) return std::nullopt;
  Cursor cursor(document, document.match(phrase, at));
  cursor.skip_blanks();
  const std::optional<Size> size = cursor.size();
  return size ? std::optional<int64_t>(size->bytes) : std::nullopt;
}

std::optional<int64_t> size_before(const Document& document, std::string_view phrase, size_t from,
                                   size_t to) {
  const size_t at = document.find(phrase, from, to);
  if (at == npos) return std::nullopt;
  // Back over the unit and the number: to the previous ';', '(' or word that is none of both.
  const std::string& text = document.text();
  size_t begin = at;
  while (begin > from && at - begin < 40) {
    const char c = text[begin - 1];
    if (c == ';' || c == '(' || c == ',' || c == '\n') break;
    --begin;
  }
  for (size_t start = begin; start < at; ++start) {
    if (!is_digit(text[start]) || (start > begin && is_digit(text[start - 1]))) continue;
    Cursor cursor(document, start);
    if (const std::optional<Size> size = cursor.size(); size && cursor.at() <= at) {
      return size->bytes;
    }
  }
  return std::nullopt;
}

// "… memory in use. 6.99 GiB allowed; Of …": the size that ends where " allowed;" begins.
std::optional<int64_t> allowed_size(const Document& document, size_t from, size_t to) {
  const size_t at = document.find(" allowed;", from, to);
  if (at == npos) return std::nullopt;
  constexpr size_t kLongest = 24;
  const std::string& text = document.text();
  for (size_t start = at; start > from && at - start < kLongest; --start) {
    const size_t first = start - 1;
    const bool inner = first > from && (is_digit(text[first - 1]) || text[first - 1] == '.');
    if (!is_digit(text[first]) || inner) continue;
    Cursor cursor(document, first);
    const std::optional<Size> size = cursor.size();
    if (size && cursor.at() + 1 >= at) return size->bytes;
  }
  return std::nullopt;
}

std::optional<int64_t> minus(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a || !b) return std::nullopt;
  return std::max<int64_t>(*a - *b, 0);
}

// The whole device is no limit of the process's own.
void drop_whole_device(Amounts& amounts) {
  if (amounts.limit && amounts.capacity && *amounts.limit >= *amounts.capacity) {
    amounts.limit.reset();
  }
}

Family family_of(const Document& document, size_t at, bool second_era) {
  struct Name {
    std::string_view text;
    Family family;
  };
  static constexpr std::array<Name, 4> kNames = {{{"hip out of memory", Family::kTorchHip},
                                                  {"xpu out of memory", Family::kTorchXpu},
                                                  {"npu out of memory", Family::kTorchNpu},
                                                  {"4gb", Family::kTorchXpu}}};
  const size_t begin = at > 160 ? at - 160 : 0;
  for (const Name& name : kNames) {
    if (document.find(name.text, begin, at) != npos) return name.family;
  }
  return second_era ? Family::kTorchCuda2x : Family::kTorchCuda1x;
}

// (GPU 0; 10.92 GiB total capacity; 8.57 MiB already allocated; 9.28 GiB free; 4.68 MiB cached)
void read_bracket(const Document& document, Finding& finding, size_t at, size_t end) {
  Cursor cursor(document, at);
  cursor.literal("(");
  cursor.skip_blanks();
  const std::string kind = cursor.until(" 0123456789;", 8);
  cursor.skip_blanks();
  if (const std::optional<int64_t> index = cursor.integer(); index && !kind.empty()) {
    finding.device = fmt::format("{} {}", kind, *index);
  }
  Amounts& amounts = finding.amounts;
  amounts.capacity = size_before(document, " total capac", at, end);
  amounts.in_use = size_before(document, " already allocated", at, end);
  amounts.free = size_before(document, " free", at, end);
  amounts.limit = allowed_size(document, at, end);
  drop_whole_device(amounts);
  amounts.held = size_before(document, " reserved in total", at, end);
  if (!amounts.held) {
    // Before 1.5 "cached" is what is held beyond what is allocated.
    const std::optional<int64_t> cached = size_before(document, " cached", at, end);
    if (cached && amounts.in_use) amounts.held = *amounts.in_use + *cached;
  }
  amounts.pool_free = minus(amounts.held, amounts.in_use);
}

// GPU 0 has a total capacity of 15.77 GiB of which 514.19 MiB is free. Process 56 has … 6.99 GiB
// allowed; Of the allocated memory … What is allowed is printed where a fraction was set.
void read_sentences(const Document& document, Finding& finding, size_t at, size_t end) {
  Amounts& amounts = finding.amounts;
  const size_t has = document.find(" has a total capac", at, end);
  if (has != npos) {
    size_t begin = has;
    while (begin > at && document.text()[begin - 1] != '.' && has - begin < 12) --begin;
    Cursor cursor(document, begin);
    cursor.skip_blanks();
    const std::string kind = cursor.until(" 0123456789", 8);
    cursor.skip_blanks();
    if (const std::optional<int64_t> index = cursor.integer(); index && !kind.empty()) {
      finding.device = fmt::format("{} {}", kind, *index);
    }
    amounts.capacity = size_after(document, " of ", has, end);
    amounts.free = size_after(document, " of which ", has, end);
  }
  for (size_t p = document.find("process ", at, end); p != npos;
       p = document.find("process ", p + 1, end)) {
    Cursor cursor(document, document.match("process ", p));
    const std::optional<int64_t> pid = cursor.integer();
    if (!pid || !cursor.literal(" has ")) continue;
    const std::optional<Size> size = cursor.size();
    const bool known = std::any_of(finding.processes.begin(), finding.processes.end(),
                                   [pid](const ProcessShare& share) { return share.pid == *pid; });
    if (size && !known && finding.processes.size() < 64) {
      finding.processes.push_back({*pid, size->bytes});
    }
  }
  finding.process_bytes = size_after(document, "this process has ", at, end);
  amounts.limit = allowed_size(document, at, end);
  drop_whole_device(amounts);
  amounts.in_use = size_after(document, "of the allocated memory ", at, end);
  amounts.pool_free = size_before(document, " is reserved by pytorch but", at, end);
  if (!amounts.pool_free) {
    const size_t reserved = document.find(" is reserved by pytorch but", at, end);
    const size_t and_at = reserved == npos ? npos : document.find_back("and ", reserved, 30);
    if (and_at != npos) amounts.pool_free = size_after(document, "and ", and_at, reserved);
  }
  if (amounts.in_use && amounts.pool_free) {
    amounts.held = *amounts.in_use + *amounts.pool_free;
    // Private pools are inside of what is allocated; nothing to add.
  }
}

// The message with the lines that it was broken into, where somebody wrapped it by hand: up to an
// empty line, a traceback or a stamp.
Document paragraph_at(const Document& document, size_t at) {
  constexpr size_t kMostLines = 12;
  const size_t first = document.line_index(document.record_start(at));
  KeptSegment whole;
  whole.line = document.number(first);
  for (size_t i = first; i < document.line_count() && i < first + kMostLines; ++i) {
    const std::string_view line = document.line(i);
    const bool next = i == first || document.number(i) <= document.number(i - 1) + 1;
    if (!next || line.empty() || (i > first && starts_record(line))) break;
    if (!whole.text.empty()) whole.text += ' ';
    whole.text += line;
  }
  std::erase(whole.text, kSoftBreak);
  return Document(std::span<const KeptSegment>(&whole, 1));
}

// What the lines after "Tried to allocate 66.54 GiB." say; false where they are no part of it.
bool read_paragraph(const Document& document, size_t at, Finding& finding) {
  const Document whole = paragraph_at(document, at);
  const size_t tried = whole.find("tried to allocate ");
  if (tried == npos || whole.find(" has a total capac", tried) == npos) return false;
  const size_t next = whole.find("tried to allocate ", tried + 1);
  read_sentences(whole, finding, tried, std::min(next, whole.text().size()));
  return true;
}

// "Exception encountered when calling Softmax.call()." of Keras, and after the message the
// arguments: the one whose size is that of the request is what was refused.
void read_keras_call(const Document& document, Finding& finding) {
  constexpr size_t kReach = 1500;
  constexpr std::string_view kCalling = "exception encountered when calling ";
  const size_t calling = document.find_back(kCalling, finding.at, kReach);
  if (calling == npos) return;
  Cursor name(document, document.match(kCalling, calling));
  finding.op = name.until("( \n'\"", 80);
  const size_t end = std::min(document.text().size(), finding.at + 4 * kReach);
  constexpr std::string_view kShape = "shape=";
  for (size_t at = document.find(kShape, finding.at, end); at != npos;
       at = document.find(kShape, at + 1, end)) {
    Cursor cursor(document, document.match(kShape, at));
    cursor.literal("torch.size(");
    const std::optional<std::vector<int64_t>> shape = cursor.shape();
    if (!shape || !cursor.seek("dtype=", 12)) continue;
    const std::string dtype = cursor.until(",) \n", 20);
    const std::optional<int64_t> bytes = tensor_bytes(*shape, dtype);
    if (!bytes || !finding.bytes || std::llabs(*bytes - *finding.bytes) > *bytes / 100) continue;
    finding.shape = shape;
    finding.dtype = dtype;
    return;
  }
}

void detect_tried(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "tried to allocate ";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    if (document.find_back("you ", at, 6) != npos) continue;  // the CPU allocator's sentence
    if (document.find_back("malloc failed (", at, 16) != npos) continue;  // git's
    Cursor cursor(document, document.match(kPhrase, at));
    const std::optional<Size> size = cursor.size();
    if (!size || (size->exact && size->bytes == 0)) continue;
    if (document.find("mps backend", at > 300 ? at - 300 : 0, at) != npos) continue;
    // Another rank's message may follow in what looks like the same record.
    const size_t next = std::min(document.find(kPhrase, at + 1), document.text().size());
    const size_t end = std::min({document.record_end(at), at + 4000, next});
    const size_t bracket = document.find("(", at, std::min(end, at + 60));
    const bool second = document.find(" has a total capac", at, end) != npos ||
                        document.find("of the allocated memory", at, end) != npos;
    Finding finding = torch_finding(family_of(document, at, second), at);
    set_size(finding, *size);
    if (finding.bytes_exact) finding.bytes_text.clear();
    if (second) {
      read_sentences(document, finding, cursor.at(), end);
    } else if (bracket == npos && read_paragraph(document, at, finding)) {
      if (finding.family == Family::kTorchCuda1x) finding.family = Family::kTorchCuda2x;
    } else if (bracket != npos) {
      read_bracket(document, finding, bracket, end);
    } else if (document.find("out of memory", at > 200 ? at - 200 : 0, at) == npos) {
      continue;  // some other program's sentence
    }
    read_keras_call(document, finding);
    finding.note =
        document.find("larger than 4gb", at > 120 ? at - 120 : 0, at) != npos ? "driver_limit" : "";
    add_finding(facts, std::move(finding));
  }
}

// A message whose beginning is cut: only "(GPU 0; …)" or the sentences are left.
void detect_cut(const Document& document, Facts& facts) {
  for (const Finding& known : facts.findings) {
    if (known.framework == "pytorch" && known.resource == Resource::kGpuMemory) return;
  }
  if (const size_t at = document.find(" total capac"); at != npos) {
    const size_t line = document.start(document.line_index(at));
    const size_t end = std::min(document.record_end(at), at + 4000);
    Finding finding = torch_finding(Family::kTorchCuda1x, at);
    const size_t open = document.find_back("(", at, 40);
    if (open != npos) {
      read_bracket(document, finding, open, end);
    } else if (document.find(" has a total capac", line, end) != npos) {
      finding.family = Family::kTorchCuda2x;
      read_sentences(document, finding, line, end);
    }
    add_finding(facts, std::move(finding));
  } else if (const size_t held = document.find(" reserved in total by pytorch"); held != npos) {
    const size_t line = document.start(document.line_index(held));
    if (document.find(" already allocated", line, held) == npos) return;
    Finding finding = torch_finding(Family::kTorchCuda1x, held);
    read_bracket(document, finding, line, document.record_end(held));
    add_finding(facts, std::move(finding));
  } else if (const size_t rest = document.find("of the allocated memory "); rest != npos) {
    Finding finding = torch_finding(Family::kTorchCuda2x, rest);
    read_sentences(document, finding, rest, document.record_end(rest));
    add_finding(facts, std::move(finding));
  }
}

void detect_mps(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "mps backend out of memory";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    const size_t end = document.record_end(at);
    Finding finding = torch_finding(Family::kTorchMps, at);
    finding.device = "MPS";
    finding.amounts.in_use = size_after(document, "mps allocated:", at, end);
    finding.amounts.others = size_after(document, "other allocations:", at, end);
    finding.amounts.limit = size_after(document, "max allowed:", at, end);
    if (const size_t tried = document.find("tried to allocate ", at, end); tried != npos) {
      Cursor cursor(document, document.match("tried to allocate ", tried));
      if (const std::optional<Size> size = cursor.size()) set_size(finding, *size);
    }
    add_finding(facts, std::move(finding));
  }
}

// Allocation on device 0 would exceed allowed memory. (out of memory)⏎Currently allocated : …
void detect_async_backend(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "allocation on device ";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    Cursor cursor(document, document.match(kPhrase, at));
    const std::optional<int64_t> index = cursor.integer();
    const bool plain = index && cursor.literal(" would exceed allowed memory");
    if (!plain) continue;
    const size_t end = at + 900;
    Finding finding = torch_finding(Family::kTorchCudaMallocAsync, at);
    finding.device = fmt::format("device {}", *index);
    const auto figure = [&](std::string_view label) -> std::optional<Size> {
      const size_t found = document.find(label, at, end);
      if (found == npos) return std::nullopt;
      Cursor value(document, document.match(label, found));
      value.skip_blanks();
      if (!value.literal(":")) return std::nullopt;
      value.skip_blanks();
      return value.size();
    };
    if (const std::optional<Size> asked = figure("requested")) set_size(finding, *asked);
    if (const auto size = figure("currently allocated")) finding.amounts.in_use = size->bytes;
    if (const auto size = figure("device limit")) finding.amounts.capacity = size->bytes;
    if (const auto size = figure("free (according to cuda)")) finding.amounts.free = size->bytes;
    // Where none was set it is the largest number there is.
    constexpr std::string_view kLimit = "pytorch limit (set by user-supplied memory fraction)";
    if (const size_t label = document.find(kLimit, at, end); label != npos) {
      Cursor value(document, document.match(kLimit, label));
      // Its figure stands in the next line, "                        : 4.00 GiB".
      constexpr std::string_view kBetween = " \n:";
      for (int gap = 0; gap < 60 && kBetween.find(value.peek()) != npos; ++gap) {
        value.move_to(value.at() + 1);
      }
      if (const auto limit = value.size()) finding.amounts.limit = limit->bytes;
      drop_whole_device(finding.amounts);
    }
    finding.amounts.held = finding.amounts.in_use;
    add_finding(facts, std::move(finding));
  }
}

void detect_plain(const Document& document, Facts& facts) {
  for (std::string_view phrase : {"cuda runtime error (2)", "error=2 : out of memory"}) {
    const size_t at = document.find(phrase);
    if (at == npos) continue;
    add_finding(facts, torch_finding(Family::kTorchThc, at));
    break;
  }
  for (std::string_view phrase :
       {"cuda error: out of memory", "hip error: out of memory", "cuda driver error: out of memory",
        "cuda error: memory allocation", "cuda out of memory", "hip out of memory",
        "xpu out of memory", "npu out of memory"}) {
    size_t at = document.find(phrase);
    // "fix CUDA out of memory when evaluating" is a sentence about it.
    while (at != npos && document.is_after_words(at)) at = document.find(phrase, at + 1);
    if (at == npos) continue;
    if (document.find("tried to allocate", at, at + 200) != npos) continue;
    Finding finding = torch_finding(Family::kTorchPlain, at);
    // Page-locked memory is the host's, whatever CUDA names the error.
    if (document.find("pin_memory", at > 1500 ? at - 1500 : 0, at + 600) != npos) {
      finding.resource = Resource::kHostMemory;
      finding.note = "pinned";
    }
    add_finding(facts, std::move(finding));
    break;
  }
}

void detect_cpu(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "you tried to allocate ";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    Cursor cursor(document, document.match(kPhrase, at));
    const std::optional<Size> size = cursor.size();
    if (!size) continue;
    Finding finding = torch_finding(Family::kTorchCpu, at);
    finding.resource = Resource::kHostMemory;
    if (document.find("defaultcpuallocato", at > 200 ? at - 200 : 0, at) != npos) {
      finding.allocator = "DefaultCPUAllocator";
    }
    set_size(finding, *size);
    const bool windows = document.find("not enough memory", at > 60 ? at - 60 : 0, at) != npos;
    if (windows) finding.note = "windows";
    add_finding(facts, std::move(finding));
  }
}

}  // namespace

void detect_torch(const Document& document, Facts& facts) {
  detect_tried(document, facts);
  detect_mps(document, facts);
  detect_async_backend(document, facts);
  detect_cut(document, facts);
  detect_plain(document, facts);
  detect_cpu(document, facts);
}

}  // namespace plimsoll::explain
