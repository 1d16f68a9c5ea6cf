// JAX and XLA: refusals, buffer assignment, peak buffers, TPU tables, rematerialization.

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "explain/detect/case.h"
#include "explain/detect/facts.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

std::optional<int64_t> labelled(const Document& document, std::string_view label, size_t from,
                                size_t to) {
  const size_t at = document.find(label, from, to);
  if (at == npos) return std::nullopt;
  Cursor cursor(document, document.match(label, at));
  cursor.skip_blanks();
  const std::optional<Size> size = cursor.size();
  return size ? std::optional<int64_t>(size->bytes) : std::nullopt;
}

void detect_buffer_assignment(const Document& document, Facts& facts) {
  Program& program = facts.program;
  const size_t at = document.find("preallocated temp allocation:");
  const size_t total = document.find(" total allocation:");
  const size_t stats = std::min(at, total);
  if (stats != npos) {
    program.at = stats;
    const size_t from = stats > 600 ? stats - 600 : 0;
    const size_t to = stats + 900;
    program.parameters = labelled(document, "parameter allocation:", from, to);
    program.outputs = labelled(document, "maybe_live_out allocation:", from, to);
    program.temporaries = labelled(document, "preallocated temp allocation:", from, to);
    program.total = labelled(document, " total allocation:", from, to);
    program.fragmentation = labelled(document, "total fragmentation:", from, to);
  }
}

// Buffer 1:⏎ Size: 96.00MiB⏎ Operator: op_name="…" source_file="…" source_line=79⏎ Shape: bf16[…]
void detect_peak_buffers(const Document& document, Facts& facts) {
  constexpr std::string_view kSize = "size: ";
  for (size_t i = 0; i < document.line_count(); ++i) {
    Cursor cursor(document, document.start(i));
    cursor.skip_blanks();
    if (cursor.integer()) cursor.literal(". ");  // TPU: "1. Size: 2.00G"
    if (!cursor.literal(kSize)) continue;
    const std::optional<Size> size = cursor.size();
    if (!size || (cursor.peek() != '\n' && !cursor.at_end() && cursor.peek() != '\0')) continue;
    ProgramBuffer buffer;
    buffer.bytes = size->bytes;
    buffer.at = document.start(i);
    const size_t stop = std::min(document.text().size(), buffer.at + 3000);
    size_t end = document.find("==========", buffer.at, stop);
    if (end == npos) end = stop;
    if (const size_t op = document.find("op_name=\"", buffer.at, end); op != npos) {
      Cursor name(document, document.match("op_name=\"", op));
      buffer.op = name.until("\"", 600);
    }
    if (const size_t file = document.find("source_file=\"", buffer.at, end); file != npos) {
      Cursor name(document, document.match("source_file=\"", file));
      buffer.source = name.until("\"");
      if (name.seek("source_line=", 20)) {
        if (const auto line = name.integer()) buffer.source += fmt::format(":{}", *line);
      }
    }
    for (std::string_view label : {"shape: ", "subshape: "}) {
      const size_t shape = document.find(label, buffer.at, end);
      if (shape == npos) continue;
      Cursor value(document, document.match(label, shape));
      buffer.shape = value.until(" {");
      break;
    }
    if (buffer.op.empty() && buffer.shape.empty()) continue;
    if (facts.program.buffers.size() < 64) facts.program.buffers.push_back(std::move(buffer));
  }
  std::stable_sort(
      facts.program.buffers.begin(), facts.program.buffers.end(),
      [](const ProgramBuffer& a, const ProgramBuffer& b) { return a.bytes > b.bytes; });
}

Finding xla_finding(const Document& document, const Facts& facts, size_t at) {
  Finding finding;
  const bool assigned = facts.program.total.has_value() || !facts.program.buffers.empty();
  finding.family = assigned ? Family::kJaxBufferAssignment : Family::kJaxOomLine;
  finding.framework = "jax";
  finding.resource = Resource::kGpuMemory;
  for (std::string_view client : {"pjrt/cpu", "tfrt_cpu", "cpu_client", "xla/service/cpu"}) {
    if (document.find(client) != npos) finding.resource = Resource::kHostMemory;
  }
  finding.amounts.program = facts.program.total;
  finding.at = at;
  return finding;
}

void detect_refusals(const Document& document, Facts& facts) {
  for (std::string_view phrase : {"while trying to allocate ", "out of memory allocating "}) {
    for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
      if (document.find("cupy", at > 200 ? at - 200 : 0, at) != npos) continue;
      // A compiler's: "out of memory allocating 65536 bytes after a total of 2147483648 bytes"
      if (document.find(" after a total of ", at, at + 80) != npos) continue;
      Cursor cursor(document, document.match(phrase, at));
      const std::optional<Size> size = cursor.size();
      if (!size) cursor.integer();
      if (!size && !document.is_cut_at(cursor.at())) continue;
      Finding finding = xla_finding(document, facts, at);
      if (size) set_size(finding, *size);
      add_finding(facts, std::move(finding));
    }
  }
  constexpr std::string_view kRequest = "failed to allocate request for ";
  for (size_t at = document.find(kRequest); at != npos; at = document.find(kRequest, at + 1)) {
    Cursor cursor(document, document.match(kRequest, at));
    const std::optional<Size> size = cursor.size();
    if (!size) continue;
    Finding finding = xla_finding(document, facts, at);
    set_size(finding, *size);
    cursor.skip_blanks();
    if (cursor.literal("(")) {
      if (const std::optional<Size> exact = cursor.size(); exact && exact->exact) {
        set_exact_bytes(finding, exact->bytes);
      }
    }
    if (cursor.seek("on device ordinal ", 20)) {
      if (const auto index = cursor.integer()) {
        finding.device = fmt::format("device ordinal {}", *index);
      }
    }
    add_finding(facts, std::move(finding));
  }
}

// Attempting to allocate 1.50G. That was not possible. There are 0.50G free.
void detect_attempts(const Document& document, Facts& facts) {
  for (std::string_view phrase : {"attempting to allocate ", "attempting to reserve "}) {
    for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
      Cursor cursor(document, document.match(phrase, at));
      const std::optional<Size> size = cursor.size();
      if (!size || !cursor.seek("that was not possible", 80)) continue;
      Finding finding = xla_finding(document, facts, at);
      finding.family = Family::kXlaTpuHbm;
      finding.device = document.find("hbm", at, at + 300) != npos ? "hbm" : "";
      finding.note = "attempt";
      set_size(finding, *size);
      if (cursor.seek("there are ", 20)) {
        if (const std::optional<Size> free = cursor.size()) finding.amounts.free = free->bytes;
      }
      add_finding(facts, std::move(finding));
    }
  }
}

void detect_tpu(const Document& document, Facts& facts) {
  constexpr std::string_view kSpace = "ran out of memory in memory space ";
  size_t at = document.find(kSpace);
  if (at == npos) at = document.find("exceeded hbm capacity by ");
  if (at == npos) return;
  Finding finding = xla_finding(document, facts, at);
  finding.family = Family::kXlaTpuHbm;
  finding.device = "hbm";
  if (const size_t space = document.match(kSpace, at); space != npos) {
    Cursor cursor(document, space);
    finding.device = cursor.until(" .");
    if (cursor.seek("used ", 40)) {
      if (const std::optional<Size> used = cursor.size()) set_size(finding, *used);
      cursor.skip_blanks();
      if (cursor.literal("of ")) {
        if (const std::optional<Size> limit = cursor.size()) {
          finding.amounts.capacity = limit->bytes;
        }
      }
    }
  }
  finding.amounts.program = finding.bytes;
  constexpr std::string_view kPadding = "extra memory due to padding:";
  if (const auto padding = labelled(document, kPadding, at, npos)) {
    facts.program.padding = padding;
    Cursor cursor(document, document.find(kPadding, at));
    if (cursor.seek(" (", 60)) facts.program.expansion = cursor.until(")", 24);
  }
  add_finding(facts, std::move(finding));
}

// Can't reduce memory use below X by rematerialization; only reduced to Y, down from Z originally
void detect_rematerialization(const Document& document, Facts& facts) {
  constexpr std::string_view kBelow = "reduce memory use below ";
  for (size_t at = document.find(kBelow); at != npos; at = document.find(kBelow, at + 1)) {
    Cursor cursor(document, document.match(kBelow, at));
    const auto pair = [&]() -> std::optional<std::pair<Size, int64_t>> {
      const std::optional<Size> shown = cursor.size();
      if (!shown) return std::nullopt;
      cursor.skip_blanks();
      if (!cursor.literal("(")) return std::pair(*shown, shown->bytes);
      const std::optional<Size> exact = cursor.size();
      return std::pair(*shown, exact ? exact->bytes : shown->bytes);
    };
    const auto limit = pair();
    if (!limit || !cursor.seek("only reduced to ", 80)) continue;
    const auto reached = pair();
    if (!reached) continue;
    Finding finding = xla_finding(document, facts, at);
    finding.family = Family::kXlaRematWarning;
    finding.survivable = true;
    finding.amounts.limit = limit->second;
    finding.bytes = reached->second;
    finding.bytes_exact = true;
    finding.bytes_text = reached->first.text;
    finding.amounts.program = reached->second;
    add_finding(facts, std::move(finding));
  }
}

// Could not get config for HLO: %fusion.32 = f32[2097152,4096]{1,0} fusion(…), … calls=⏎
// (parameter_0.9: f32[2097152,4096], …) … op_name="jit(step)/dot_general" …: what the search of
// newer versions was for. The array whose size was refused is one of those named there.
void read_search(const Document& document, size_t from, Finding& finding) {
  if (const size_t op = document.find("op_name=\"", from, finding.at); op != npos) {
    finding.op = Cursor(document, document.match("op_name=\"", op)).until("\"", 600);
  }
  const std::string& text = document.text();
  for (size_t open = text.find('[', from); open < finding.at; open = text.find('[', open + 1)) {
    size_t begin = open;
    while (begin > from && is_word(text[begin - 1])) --begin;
    const std::string dtype = text.substr(begin, open - begin);
    const std::optional<std::vector<int64_t>> shape = Cursor(document, open).shape();
    const std::optional<int64_t> bytes = shape ? tensor_bytes(*shape, dtype) : std::nullopt;
    if (!bytes || !finding.bytes || *bytes > *finding.bytes) continue;
    // Zones beside an array, in which a write out of bounds would show, are a little more.
    if (*finding.bytes - *bytes > *bytes / 100) continue;
    finding.shape = shape;
    finding.dtype = dtype;
    return;
  }
}

// The search for kernels without scratch memory, and the error that it ends with.
void detect_autotuning(const Document& document, Facts& facts) {
  constexpr std::string_view kScratch = "allocate autotuning scratch";
  constexpr std::string_view kSearch = "could not get config for hlo: ";
  for (Finding& finding : facts.findings) {
    const bool xla =
        finding.family == Family::kJaxOomLine || finding.family == Family::kJaxBufferAssignment;
    if (!xla) continue;
    const size_t search = document.find_back(kSearch, finding.at, 6000);
    if (search != npos) read_search(document, search, finding);
    if (search == npos && document.find_back(kScratch, finding.at, 200) == npos) continue;
    finding.note = "autotune";
    finding.allocator = "";
  }
  constexpr std::string_view kNoResult = "no reference output found";
  const size_t at = document.find(kNoResult);
  const bool told = std::any_of(facts.findings.begin(), facts.findings.end(),
                                [](const Finding& other) { return other.note == "autotune"; });
  if (at == npos || told) return;
  Finding finding = xla_finding(document, facts, at);
  finding.family = Family::kJaxOomLine;
  finding.note = "no_result";
  add_finding(facts, std::move(finding));
}

// The table of the largest buffers, or the account of the program, is printed when memory was
// refused; its beginning may be cut.
void detect_headless_table(const Document& document, Facts& facts) {
  const Program& program = facts.program;
  if (program.buffers.empty() && !program.total) return;
  const bool told =
      std::any_of(facts.findings.begin(), facts.findings.end(),
                  [](const Finding& other) { return other.resource != Resource::kNone; });
  if (told) return;
  Finding finding =
      xla_finding(document, facts, program.total ? program.at : program.buffers.front().at);
  finding.note = "table";
  if (program.temporaries) {
    // The temporaries are what such a program asks for in one piece.
    finding.bytes = program.temporaries;
    finding.bytes_text = size_words(program.temporaries);
  }
  add_finding(facts, std::move(finding));
}

}  // namespace

// The byte size of input/output arguments (4398046511108) exceeds the base limit (112583507968).
void detect_base_limit(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "exceeds the base limit (";
  const size_t at = document.find(kPhrase);
  if (at == npos) return;
  facts.program.base_limit = Cursor(document, document.match(kPhrase, at)).inner_integer();
}

void detect_xla(const Document& document, Facts& facts) {
  detect_base_limit(document, facts);
  detect_buffer_assignment(document, facts);
  detect_peak_buffers(document, facts);
  detect_refusals(document, facts);
  detect_attempts(document, facts);
  detect_tpu(document, facts);
  detect_rematerialization(document, facts);
  detect_autotuning(document, facts);
  detect_headless_table(document, facts);
}

}  // namespace plimsoll::explain
