#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/format.h"
#include "explain/conclude/cause.h"
#include "explain/explanation.h"
#include "explain/read/document.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kIndent = 12;

// `label` in the left column, `text` wrapped beside it.
void add_block(std::string& out, std::string_view label, std::string_view text) {
  std::string line(label);
  line.resize(std::max(line.size(), kIndent), ' ');
  bool first = true;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view rest = text.substr(0, end);
    do {
      size_t take = rest.size();
      if (take > kWidth - kIndent) {
        take = rest.rfind(' ', kWidth - kIndent);
        if (take == std::string_view::npos || take == 0) take = rest.find(' ');
        if (take == std::string_view::npos) take = rest.size();
      }
      if (!first) line.assign(kIndent, ' ');
      line += rest.substr(0, take);
      out += line + "\n";
      first = false;
      rest.remove_prefix(take);
      while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    } while (!rest.empty());
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
}

std::string_view resource_words(const Explanation& explanation) {
  if (explanation.family == "program_error")
    return "an error of the program, no shortage of memory";
  if (explanation.family == "device_fault") return "a fault of the device, no shortage of memory";
  if (explanation.family == "crash") return "a crash; the log does not say of what";
  if (explanation.family == "plimsoll_limit")
    return "a memory limit that is too small for Plimsoll";
  if (!explanation.what.empty()) return explanation.what;
  if (explanation.cause_label == Cause::kNotMemory) return "no shortage of memory";
  switch (explanation.resource) {
    case Resource::kGpuMemory:
      return explanation.cause_label == Cause::kConvWorkspace ? "convolution work space"
                                                              : "device memory";
    case Resource::kHostMemory:
      if (explanation.cause_label == Cause::kPinnedHostPool) return "page-locked host memory";
      if (explanation.cause_label == Cause::kWindowsPagefile) return "Windows' commit limit";
      return explanation.family == "killed"
                 ? "most likely host memory (RAM); the log does not prove it"
                 : "host memory (RAM)";
    case Resource::kShm:
      return explanation.cause_label == Cause::kAmbiguousBusError
                 ? "shared memory, or a mapped file cut short"
                 : "shared memory (/dev/shm)";
    case Resource::kFileDescriptors:
      return "file descriptors, not memory";
    case Resource::kDisk:
      return "the file system, not memory";
    case Resource::kMessageSize:
      return "the size of one message, not memory";
    case Resource::kOther:
      return "something that is not memory";
    case Resource::kNone:
      break;
  }
  return "memory; the log does not say which";
}

// By how much: what is missing where the log tells what there was, else what was asked for or the
// limit that was reached.
std::string shortage_words(const Explanation& explanation) {
  const Amounts& amounts = explanation.amounts;
  const bool memory =
      explanation.resource == Resource::kGpuMemory || explanation.resource == Resource::kHostMemory;
  if (!memory) return "";
  if (!explanation.bytes) {
    if (!explanation.bytes_text.empty()) return ": " + explanation.bytes_text + " asked for";
    if (amounts.limit) return ": limit " + size_words(amounts.limit);
    const bool refused =
        explanation.family.starts_with("tf_") && explanation.tensor_bytes_from_shape;
    return refused ? ": a tensor of " + size_words(explanation.tensor_bytes_from_shape) : "";
  }
  const std::string asked = size_words(explanation.bytes);
  if (explanation.cause_label == Cause::kFragmentation && amounts.pool_free) {
    return ": " + asked + " asked for, " + size_words(amounts.pool_free) + " free in pieces";
  }
  const std::optional<int64_t> whole = amounts.limit ? amounts.limit : amounts.capacity;
  // What a compiled program may use is not all there is.
  const bool program = amounts.program && amounts.limit;
  if (whole && !program && *explanation.bytes > *whole) {
    return ": " + asked + " asked for where there are " + size_words(whole) + " in all";
  }
  const std::optional<int64_t> room = left_for(explanation);
  if (room && *room < *explanation.bytes) {
    return ": " + size_words(*explanation.bytes - *room) + " short (" + asked + " asked for, " +
           size_words(room) + (room == amounts.free ? " free)" : " left of its limit)");
  }
  return ": " + asked + " asked for";
}

std::string headline(const Explanation& explanation) {
  switch (explanation.verdict) {
    case Verdict::kNoFailure:
      return "no failure found";
    case Verdict::kWarning:
      if (explanation.survived) {
        return "survived: " + std::string(resource_words(explanation)) +
               " was refused, and the program went on";
      }
      return explanation.family == "memory_series" ? "no failure, but memory that grows"
                                                   : "warnings only, nothing failed in this log";
    case Verdict::kFailure:
      break;
  }
  return std::string(resource_words(explanation)) + shortage_words(explanation);
}

void add_figure(std::string& line, std::string_view label, const std::optional<int64_t>& bytes) {
  if (!bytes) return;
  if (!line.empty()) line += " · ";
  line += std::string(label) + " " + size_words(bytes);
}

// "20.00 MiB" and "20 MiB" are the same.
std::pair<double, std::string> figure_of(std::string text) {
  std::erase(text, ' ');
  const size_t unit = std::min(text.find_first_not_of("0123456789."), text.size());
  return {std::strtod(text.substr(0, unit).c_str(), nullptr), text.substr(unit)};
}

void add_amounts(std::string& out, const Explanation& explanation) {
  std::string line;
  if (explanation.bytes) {
    line = "asked " + size_words(explanation.bytes);
    if (explanation.bytes_exact) {
      line += fmt::format(" ({} bytes)", *explanation.bytes);
    } else if (is_printed_otherwise(explanation)) {
      line += " (printed as " + explanation.bytes_text + ")";
    }
  } else if (!explanation.bytes_text.empty()) {
    line = "asked " + explanation.bytes_text;
  }
  const Amounts& amounts = explanation.amounts;
  add_figure(line, "in use", amounts.in_use);
  add_figure(line, "held", amounts.held);
  add_figure(line, "free", amounts.free);
  add_figure(line, "limit", amounts.limit);
  add_figure(line, "capacity", amounts.capacity);
  add_figure(line, "others", amounts.others);
  add_figure(line, "free in the pool", amounts.pool_free);
  add_figure(line, "largest free piece", amounts.largest_free);
  add_figure(line, "program needs", amounts.program);
  if (amounts.fragmentation) {
    line += fmt::format(" · fragmentation {} %", std::lround(*amounts.fragmentation * 100));
  }
  if (!line.empty()) add_block(out, "how much", line);
}

std::string shape_words(const std::vector<int64_t>& shape) {
  std::string words = "[";
  for (size_t i = 0; i < shape.size(); ++i) words += fmt::format("{}{}", i ? ", " : "", shape[i]);
  return words + "]";
}

void add_who(std::string& out, const Explanation& explanation) {
  std::string line = explanation.op;
  if (!explanation.op_type.empty() && explanation.op_type != explanation.op) {
    line += " (" + explanation.op_type + ")";
  }
  if (!explanation.kernel_file.empty()) {
    line += (line.empty() ? "kernel in " : ", kernel in ") + explanation.kernel_file;
  }
  if (explanation.tensor_shape) {
    line += (line.empty() ? "tensor " : ", tensor ") + shape_words(*explanation.tensor_shape);
    if (!explanation.dtype.empty()) line += " " + explanation.dtype;
    if (explanation.tensor_bytes_from_shape) {
      line += " = " + size_words(explanation.tensor_bytes_from_shape);
    }
  }
  if (!line.empty()) add_block(out, "who", line);
  for (const LayerMatch& match : explanation.layers) {
    add_block(out, "",
              "layer " + match.layer +
                  (match.is_weight ? " (a weight)"
                   : match.batch   ? fmt::format(" at {} samples", *match.batch)
                                   : ""));
  }
  std::string where = explanation.device;
  if (!explanation.allocator.empty()) {
    where += (where.empty() ? "allocator " : ", allocator ") + explanation.allocator;
  }
  if (!where.empty()) add_block(out, "where", where);
}

std::string confidence_words(double confidence) {
  return confidence >= 0.8   ? "high confidence"
         : confidence >= 0.5 ? "medium confidence"
                             : "low confidence";
}

void add_evidence(std::string& out, const Explanation& explanation) {
  bool first = true;
  for (const Evidence& evidence : explanation.evidence) {
    add_block(out, first ? "evidence" : "",
              (evidence.line > 0 ? fmt::format("line {}: ", evidence.line) : "") + evidence.text);
    first = false;
  }
  first = true;
  for (const std::string& reason : explanation.usual_reasons) {
    add_block(out, first ? "usual" : "", reason);
    first = false;
  }
}

void add_advice_block(std::string& out, const Explanation& explanation) {
  int number = 0;
  for (const Advice& advice : explanation.advice) {
    std::string text = fmt::format("{}. {}", ++number, advice.action);
    if (!advice.arithmetic.empty()) text += " (" + advice.arithmetic + ")";
    if (!advice.code.empty()) text += "\n" + advice.code;
    add_block(out, number == 1 ? "what to do" : "", text);
  }
  bool first = true;
  for (const NotWorth& entry : explanation.not_worth) {
    add_block(out, first ? "not worth" : "", entry.action + ": " + entry.reason);
    first = false;
  }
  first = true;
  for (const std::string& correction : explanation.corrections) {
    add_block(out, first ? "corrected" : "", correction);
    first = false;
  }
}

void add_questions(std::string& out, const Explanation& explanation) {
  bool first = true;
  for (const std::string& item : explanation.collect) {
    add_block(out, first ? "not said" : "", item);
    first = false;
  }
}

}  // namespace

std::string cause_words(const Explanation& explanation) {
  std::string words(to_string(explanation.cause_label));
  if (explanation.cause_label != Cause::kUnknown) {
    words += " (" + confidence_words(explanation.confidence) + ")";
  }
  return words;
}

bool is_printed_otherwise(const Explanation& explanation) {
  return explanation.bytes && !explanation.bytes_exact &&
         figure_of(explanation.bytes_text) != figure_of(size_words(explanation.bytes));
}

std::string to_text(const Explanation& explanation, std::string_view name) {
  std::string out;
  if (!name.empty()) out += clean_line(name) + ": ";
  out += headline(explanation);
  if (!explanation.framework.empty()) out += " (" + explanation.framework + ")";
  out += "\n";
  if (explanation.verdict == Verdict::kNoFailure && explanation.family.empty()) {
    out += fmt::format(
        "  {} lines read; no known form of a memory failure, kill or exhausted limit is in them\n",
        explanation.lines_read);
    return out;
  }
  // Where the log cannot tell, what finds out comes first.
  const bool untold = explanation.family == "killed" && explanation.cause_label == Cause::kUnknown;
  if (untold) add_advice_block(out, explanation);
  add_amounts(out, explanation);
  add_block(out, "why", cause_words(explanation) + ": " + explanation.cause);
  if (!untold) add_advice_block(out, explanation);
  add_who(out, explanation);
  if (!explanation.when_text.empty()) {
    add_block(out, "when", explanation.when_text);
  } else if (explanation.verdict == Verdict::kFailure) {
    add_block(out, "when", "the log does not say");
  }
  add_evidence(out, explanation);
  add_questions(out, explanation);
  const bool advised = std::ranges::any_of(explanation.advice, [](const Advice& advice) {
    return advice.code.starts_with("plimsoll watch");
  });
  if (!explanation.plimsoll_command.empty() &&
      !(advised && explanation.plimsoll_command.starts_with("plimsoll watch"))) {
    add_block(out, "plimsoll", explanation.plimsoll_command);
  }
  return out;
}

}  // namespace plimsoll::explain
