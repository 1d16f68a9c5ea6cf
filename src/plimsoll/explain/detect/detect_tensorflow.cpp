#include <utility>

#include "explain/detect/case.h"
#include "explain/detect/facts.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"
#include "explain/read/tf_node.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

void add_node(const Document& document, Finding& finding, size_t from) {
  const std::string eager = eager_tf_op(document, from);
  if (const std::optional<TfNode> node = next_tf_node(document, from)) {
    finding.op = node->name;
    finding.op_type = node->op_type;
    finding.attribute_dtype = node->dtype;
    if (finding.device.empty()) finding.device = node->device;
  } else if (!eager.empty()) {
    finding.op = eager;
    finding.op_type = eager;
  }
}

// "/job:localhost/replica:0/task:0/device:GPU:0", "/gpu:0": a kind and a number at the end.
bool is_device_name(std::string_view name) {
  size_t digits = name.size();
  while (digits > 0 && is_digit(name[digits - 1])) --digits;
  return digits < name.size() && digits > 1 && name[digits - 1] == ':' &&
         is_alpha(name[digits - 2]) &&
         find_ignoring_case(name.substr(0, digits), "task:") + 5 != digits &&
         find_ignoring_case(name.substr(0, digits), "replica:") + 8 != digits;
}

bool is_allocator_name(std::string_view name) {
  const auto ends = [name](std::string_view end) {
    return name.size() >= end.size() &&
           equals_ignoring_case(name.substr(name.size() - end.size()), end);
  };
  return ends("_bfc") || ends("cpu") || ends("allocator") || name.starts_with("gpu_async_");
}

// dim { size: 64 } dim { size: 3 }
std::optional<std::vector<int64_t>> read_dim_list(Cursor& cursor) {
  std::vector<int64_t> dims;
  for (;;) {
    cursor.skip_blanks();
    if (!cursor.literal("dim {")) break;
    cursor.skip_blanks();
    if (!cursor.literal("size:")) return std::nullopt;
    cursor.skip_blanks();
    const std::optional<int64_t> dim = cursor.integer();
    cursor.skip_blanks();
    if (!dim || !cursor.literal("}")) return std::nullopt;
    dims.push_back(*dim);
  }
  if (dims.empty()) return std::nullopt;
  return dims;
}

// and type float on /job:…/device:GPU:0 by allocator GPU_0_bfc
void read_placement(Cursor& cursor, Finding& finding) {
  cursor.skip_blanks();
  if (cursor.literal("and type ")) finding.dtype = cursor.word(" `\"',", is_type_name);
  cursor.skip_blanks();
  if (cursor.literal("on ")) finding.device = cursor.word(" `\"'", is_device_name);
  cursor.skip_blanks();
  if (cursor.literal("by allocator ")) {
    finding.allocator = cursor.word(" `\"',[", is_allocator_name);
  }
}

void read_oom_line(const Document& document, Facts& facts, size_t at, size_t after) {
  Finding finding;
  finding.family = Family::kTfOomLine;
  finding.framework = "tensorflow";
  finding.at = at;
  Cursor cursor(document, after);
  cursor.skip_blanks();
  const bool constant = cursor.literal("of shape");
  if (constant || cursor.literal("with shape")) {
    finding.shape = read_dim_list(cursor);
    if (!finding.shape) {
      cursor.skip_blanks();
      finding.shape = cursor.shape();
    }
  }
  read_placement(cursor, finding);
  finding.kernel_file = kernel_file_before(document, at);
  add_node(document, finding, at);
  if (finding.op.empty()) finding.op = named_tf_node(document, at);
  finding.resource = resource_of_device(finding.device, finding.allocator);
  if (finding.resource == Resource::kNone && !constant) finding.resource = Resource::kGpuMemory;
  if (constant) finding.note = "constant";
  add_finding(facts, std::move(finding));
}

// What is left where the shape's words are cut too: "8,64] and type float on … by allocator …".
void detect_oom_tails(const Document& document, Facts& facts) {
  constexpr std::string_view kBy = " by allocator ";
  for (size_t at = document.find(kBy); at != npos; at = document.find(kBy, at + 1)) {
    const size_t type = document.find_back("and type ", at, 160);
    const size_t begin = document.record_start(at);
    if (type == npos || type < begin) continue;
    if (document.find_back("cating ", type, type - begin) != npos) continue;
    Finding finding;
    finding.family = Family::kTfOomLine;
    finding.framework = "tensorflow";
    finding.at = type;
    if (const size_t open = document.find_back("[", type, type - begin); open != npos) {
      Cursor cursor(document, open);
      finding.shape = cursor.shape();
    }
    Cursor cursor(document, type);
    read_placement(cursor, finding);
    add_node(document, finding, type);
    finding.resource = resource_of_device(finding.device, finding.allocator);
    add_finding(facts, std::move(finding));
  }
}

void detect_oom_lines(const Document& document, Facts& facts) {
  // "OOM when allocating [a ]tensor with|of shape", its beginning cut anywhere.
  for (std::string_view phrase :
       {"cating tensor with shape", "cating tensor of shape", "cating a tensor with shape"}) {
    for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
      const size_t words = document.find_back("oom when allo", at, 16);
      read_oom_line(document, facts, words == npos ? at : words,
                    document.match(phrase.substr(0, phrase.find("tensor") + 6), at));
    }
  }
  detect_oom_tails(document, facts);
  constexpr std::string_view kEager = "failed to allocate memory";
  for (size_t at = document.find(kEager); at != npos; at = document.find(kEager, at + 1)) {
    const std::string op = eager_tf_op(document, at);
    const size_t status = document.find_back("resource", at, 60);
    if (op.empty() && status == npos) continue;
    if (document.match("failed to allocate memory for", at) != npos) continue;
    Finding finding;
    finding.family = Family::kTfOomLine;
    finding.framework = "tensorflow";
    finding.note = "eager";
    finding.at = at;
    finding.kernel_file = kernel_file_before(document, at);
    add_node(document, finding, at);
    finding.resource = Resource::kGpuMemory;
    add_finding(facts, std::move(finding));
  }
}

void detect_zero_bytes(const Document& document, Facts& facts) {
  for (std::string_view phrase : {"tried to allocate 0 bytes", "request to allocate 0 bytes"}) {
    const size_t at = document.find(phrase);
    if (at == npos) continue;
    Finding finding;
    finding.family = Family::kTfZeroBytes;
    finding.framework = "tensorflow";
    set_exact_bytes(finding, 0);
    finding.at = at;
    add_finding(facts, std::move(finding));
  }
}

void detect_autotune_limit(const Document& document, Facts& facts) {
  constexpr std::string_view kMiddle = " bytes exceeds the memory limit of ";
  constexpr std::string_view kFront = "allocating ";
  for (size_t at = document.find(kFront); at != npos; at = document.find(kFront, at + 1)) {
    Cursor cursor(document, document.match(kFront, at));
    const std::optional<int64_t> bytes = cursor.inner_integer();
    if (!bytes || !cursor.literal(kMiddle)) continue;
    Finding finding;
    finding.family = Family::kTfAutotuneLimit;
    finding.framework = "tensorflow";
    finding.resource = Resource::kGpuMemory;
    set_exact_bytes(finding, bytes);
    finding.line_limit = cursor.inner_integer();
    finding.at = at;
    for (size_t node_at = document.find("[[", at); node_at != npos;
         node_at = document.find("[[", node_at + 2)) {
      if (const std::optional<TfNode> node = read_tf_node(document, node_at)) {
        finding.op = node->name;
        finding.op_type = node->op_type;
        break;
      }
    }
    add_finding(facts, std::move(finding));
  }
}

// A refusal on the device that calls itself something else.
void detect_disguised(const Document& document, Facts& facts) {
  constexpr std::string_view kDst = "dst tensor is not initialized";
  constexpr std::string_view kCopy = "failed copying input tensor";
  for (std::string_view phrase : {kCopy, kDst}) {
    for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
      Finding finding;
      finding.family = Family::kTfDisguised;
      finding.framework = "tensorflow";
      finding.resource = Resource::kGpuMemory;
      finding.at = at;
      finding.note = phrase == kCopy ? "copy" : "dst";
      if (phrase == kCopy) {
        Cursor cursor(document, document.match(phrase, at));
        if (cursor.seek(" to ", 300)) finding.device = cursor.until(" :");
        // A device name holds colons of its own.
        if (!finding.device.empty() && cursor.peek() == ':') {
          finding.device += cursor.until(" ");
          while (!finding.device.empty() && finding.device.back() == ':') {
            finding.device.pop_back();
          }
        }
        if (cursor.literal(" in order to run ")) {
          finding.op = cursor.until(": ");
        }
        if (find_ignoring_case(finding.device, "device:") == npos) finding.device.clear();
      } else if (document.find_back(kCopy, at, 400) == npos) {
        add_node(document, finding, at);
      } else {
        continue;  // the end of a message that began with the copy
      }
      add_finding(facts, std::move(finding));
    }
  }
}

// The status without any of the known reasons after it: cut, or the reason stands elsewhere.
void detect_bare_status(const Document& document, Facts& facts) {
  for (const Finding& finding : facts.findings) {
    if (finding.survivable) continue;
    if (finding.framework == "tensorflow" || finding.family <= Family::kDiskFull) return;
  }
  for (std::string_view phrase :
       {"resourceexhaustederror", ": resource exhausted", ": resource_exhausted"}) {
    const size_t at = document.find(phrase);
    if (at == npos) continue;
    // Said by others too: gRPC, XLA and Paddle have readers of their own.
    if (document.find("out of memory", at, at + 200) != npos) continue;
    if (document.find("allocate request", at, at + 200) != npos) continue;
    if (document.find("larger than max", at, at + 400) != npos) continue;
    if (document.find("attempting to", at, at + 200) != npos) continue;
    if (document.find("quota", at, at + 200) != npos) continue;
    if (document.find("has no attribute", document.start(document.line_index(at)), at + 120) !=
        npos) {
      continue;
    }
    Finding finding;
    finding.family = Family::kTfExhausted;
    finding.framework = "tensorflow";
    finding.resource = Resource::kGpuMemory;
    finding.at = at;
    finding.kernel_file = kernel_file_before(document, at + 1);
    add_node(document, finding, at);
    if (finding.op.empty()) finding.op = named_tf_node(document, at);
    add_finding(facts, std::move(finding));
    return;
  }
}

}  // namespace

void detect_tensorflow(const Document& document, Facts& facts) {
  detect_zero_bytes(document, facts);
  detect_oom_lines(document, facts);
  detect_autotune_limit(document, facts);
  detect_disguised(document, facts);
  detect_bare_status(document, facts);
}

}  // namespace plimsoll::explain
