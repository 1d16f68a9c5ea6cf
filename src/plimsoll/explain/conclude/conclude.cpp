#include "explain/conclude/conclude.h"

#include <algorithm>

#include "base/format.h"
#include "explain/conclude/cause_impl.h"
#include "explain/conclude/counter.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t kMostEvidence = 8;

// A refusal of XLA's or of the allocator beneath it.
bool is_xla(const Case& found) {
  const Family family = found.main.family;
  return family == Family::kTfBfcDump || family == Family::kJaxOomLine ||
         family == Family::kJaxBufferAssignment;
}

void fill_amounts(const Case& found, Amounts& amounts) {
  amounts = found.main.amounts;
  const std::optional<int64_t> created = found.facts.context.created_mib;
  if (created && found.main.resource == Resource::kGpuMemory && !amounts.limit &&
      !found.pool.limit) {
    amounts.limit = *created << 20;
  }
  if (found.main.resource == Resource::kGpuMemory && !found.pool.limit && !amounts.limit) {
    amounts.limit = found.facts.program.base_limit;
  }
  const Finding* warned = found.first(Family::kXlaRematWarning);
  if (warned != nullptr && is_xla(found) && !amounts.program) {
    amounts.program = warned->amounts.program;
    if (!found.pool.limit) amounts.limit = warned->amounts.limit;
  }
  if (!found.pool.seen || found.main.resource != Resource::kGpuMemory) return;
  const Pool& pool = found.pool;
  const PoolSpace space = pool_space(pool);
  if (!amounts.in_use) amounts.in_use = pool.in_use;
  if (!amounts.held) amounts.held = pool.region_bytes;
  if (!amounts.limit) amounts.limit = pool.limit;
  if (!amounts.pool_free) amounts.pool_free = space.free;
  if (!amounts.largest_free) amounts.largest_free = space.largest;
  if (!amounts.free) amounts.free = pool.device_free;
  if (!amounts.capacity) amounts.capacity = pool.device_total;
}

void derive_amounts(const Finding& main, Amounts& amounts) {
  if (amounts.pool_free && amounts.largest_free && *amounts.pool_free > 0) {
    amounts.fragmentation =
        1.0 - static_cast<double>(*amounts.largest_free) / static_cast<double>(*amounts.pool_free);
  }
  if (!amounts.others && amounts.capacity && amounts.free && amounts.held) {
    // Contexts and libraries are the process's own, where the message counts them.
    const int64_t own = std::max(taken_by_process(main).value_or(0), *amounts.held);
    amounts.others = std::max<int64_t>(*amounts.capacity - *amounts.free - own, 0);
  }
}

void quote_evidence(const Case& found, std::vector<size_t> offsets, Explanation& explanation) {
  const Pool& pool = found.pool;
  if (pool.seen && found.main.resource == Resource::kGpuMemory) {
    if (pool.request) offsets.push_back(pool.request_at);
    if (pool.limit || pool.in_use) offsets.push_back(pool.at);
  }
  std::vector<int64_t> lines;
  for (size_t offset : offsets) {
    const int64_t line = found.document.number_at(offset);
    if (std::find(lines.begin(), lines.end(), line) != lines.end()) continue;
    lines.push_back(line);
    if (explanation.evidence.size() < kMostEvidence) {
      explanation.evidence.push_back({line, found.document.quote(offset)});
    }
  }
  const ChunkCounts& chunks = pool.chunks;
  if (pool.seen && chunks.largest_free > 0) {
    explanation.evidence.push_back(
        {chunks.largest_free_line,
         fmt::format("largest free chunk: {} of {} free chunks", size_words(chunks.largest_free),
                     chunks.free_chunks)});
  }
  if (pool.seen && pool.in_use && chunks.holder_bytes * 2 >= *pool.in_use &&
      chunks.holder_bytes > 0) {
    explanation.evidence.push_back(
        {chunks.holder_line,
         fmt::format("{} chunks of {} hold {} of {} in use", chunks.holder_chunks,
                     size_words(chunks.holder_size), size_words(chunks.holder_bytes),
                     size_words(pool.in_use))});
  }
}

// XLA's own account of the program: the largest buffers with the source line that made them.
void quote_buffers(const Case& found, Explanation& explanation) {
  constexpr size_t kMost = 3;
  const std::vector<ProgramBuffer>& buffers = found.facts.program.buffers;
  for (size_t i = 0; i < std::min(buffers.size(), kMost); ++i) {
    std::string text = "buffer of " + size_words(buffers[i].bytes);
    if (!buffers[i].shape.empty()) text += " " + buffers[i].shape;
    if (!buffers[i].op.empty()) text += ", " + buffers[i].op;
    if (!buffers[i].source.empty()) text += ", " + buffers[i].source;
    explanation.evidence.push_back({found.document.number_at(buffers[i].at), std::move(text)});
  }
}

Verdict verdict_of(const Case& found) {
  if (!found.found) return Verdict::kNoFailure;
  const bool warning =
      found.survived || found.main.survivable || found.main.family == Family::kMemorySeries;
  return warning ? Verdict::kWarning : Verdict::kFailure;
}

// The form that tells most about the log as a whole: a line within a dump counts as the dump.
std::string_view family_name(const Case& found) {
  const Family family = found.main.family;
  const bool dump = found.pool.seen || found.facts.chunks.first_line != 0;
  const bool account = found.facts.program.total || !found.facts.program.buffers.empty();
  if (family == Family::kTfBfcDump && account) return to_string(Family::kJaxBufferAssignment);
  if (family == Family::kTfOomLine && dump) return to_string(Family::kTfBfcDump);
  if (family == Family::kTfExhausted && found.main.resource == Resource::kGpuMemory) {
    return to_string(dump ? Family::kTfBfcDump : Family::kTfOomLine);
  }
  if (family == Family::kTfDisguised) {
    if (found.has(Family::kTfDriverAlloc)) return to_string(Family::kTfDriverAlloc);
    if (dump) return to_string(Family::kTfBfcDump);
  }
  if (family == Family::kTfDriverAlloc && found.has(Family::kTfNonfatalWarning)) {
    return to_string(Family::kTfNonfatalWarning);
  }
  return to_string(family);
}

void copy_fields(const Case& found, Explanation& explanation) {
  const Finding& main = found.main;
  explanation.framework = found.framework;
  explanation.family = family_name(found);
  explanation.resource = main.resource;
  explanation.device = main.device;
  explanation.allocator = main.allocator;
  explanation.bytes = main.bytes;
  explanation.bytes_exact = main.bytes && main.bytes_exact;
  explanation.bytes_text = main.bytes_text;
  explanation.tensor_shape = main.shape;
  explanation.dtype = main.dtype;
  explanation.tensor_bytes_from_shape = found.shape_bytes;
  explanation.op = main.op;
  explanation.op_type = main.op_type;
  explanation.kernel_file = main.kernel_file;
  explanation.batch = found.batch;
  explanation.survived = found.survived;
}

// What ran out, or is wrong, where it is no memory.
std::string name_of_limit(const Case& found) {
  switch (veto_of(found)) {
    case Veto::kAssertion:
      return "a check that failed on the device, no shortage of memory";
    case Veto::kVersions:
      return "versions that do not match, no shortage of memory";
    case Veto::kFree:
      return "a library that could not start, no shortage of memory";
    case Veto::kNone:
      break;
  }
  const std::string& note = found.main.note;
  if (note == "service_quota") return "the quota of a service, no shortage of memory";
  if (note == "map_count") return "the number of memory mappings, not the memory";
  if (note == "inotify_watches") return "inotify watches, no shortage of memory or disk";
  if (note == "inotify_instances") return "inotify instances, no shortage of memory or files";
  if (found.main.family == Family::kProcessLimit && note.empty()) {
    return "processes and threads, no shortage of memory";
  }
  return "";
}

// Where the message names no tensor: the largest of the program's buffers, "f32[1022,4,1022,1022]".
void take_largest_buffer(const Case& found, Explanation& explanation) {
  const std::vector<ProgramBuffer>& buffers = found.facts.program.buffers;
  const bool xla =
      found.main.family == Family::kXlaTpuHbm || found.main.family == Family::kJaxBufferAssignment;
  if (!xla || buffers.empty() || explanation.tensor_shape) return;
  const std::string& text = buffers.front().shape;
  const size_t open = text.find('[');
  if (open == std::string::npos || !is_type_name(text.substr(0, open))) return;
  std::vector<int64_t> shape;
  for (size_t at = open + 1; at < text.size() && text[at] != ']';) {
    const std::optional<int64_t> dim = read_integer(text, at);
    if (!dim || shape.size() >= 32) return;
    shape.push_back(*dim);
    if (at < text.size() && text[at] == ',') ++at;
  }
  explanation.tensor_shape = shape;
  explanation.dtype = text.substr(0, open);
  explanation.tensor_bytes_from_shape = tensor_bytes(shape, explanation.dtype);
  explanation.op = buffers.front().op;
}

}  // namespace

Explanation conclude(const Document& document, const Facts& facts, const ModelShapes& model) {
  Explanation explanation;
  Case found = build_case(document, facts);
  explanation.verdict = verdict_of(found);
  if (!found.found) return explanation;

  if (!model.spelled.empty()) found.model = model.spelled;
  copy_fields(found, explanation);
  if (explanation.tensor_shape) {
    explanation.layers = match_layers(model, *explanation.tensor_shape, explanation.op);
    for (const LayerMatch& match : explanation.layers) {
      if (match.is_weight) {
        found.weights = true;
        found.batch.reset();
      } else if (match.batch && !found.weights) {
        found.batch = match.batch;
      }
    }
    explanation.batch = found.batch;
  }
  fill_amounts(found, explanation.amounts);
  derive_amounts(found.main, explanation.amounts);

  const Diagnosis diagnosis = diagnose(found);
  explanation.cause_label = diagnosis.cause;
  explanation.cause = diagnosis.sentence;
  explanation.confidence = diagnosis.confidence;
  explanation.what = name_of_limit(found);
  const bool device_or_host =
      found.main.resource == Resource::kGpuMemory || found.main.resource == Resource::kHostMemory;
  if (diagnosis.cause == Cause::kNotMemory && device_or_host) {
    explanation.resource = Resource::kOther;
  }
  if (diagnosis.cause != Cause::kUnknown) {
    explanation.cause_basis = diagnosis.inferred ? "inference" : "log";
  }
  quote_evidence(found, diagnosis.evidence, explanation);
  if (found.main.resource == Resource::kGpuMemory) quote_buffers(found, explanation);
  if (diagnosis.cause == Cause::kUnknown || diagnosis.confidence < 0.5) {
    explanation.usual_reasons = usual_reasons(found);
  }
  tell_when(found, explanation);
  advise(found, explanation);
  take_largest_buffer(found, explanation);
  if (found.main.bogus_bytes) {
    // Said as it stands; nothing above reckoned with it.
    explanation.bytes = found.main.bogus_bytes;
    explanation.bytes_exact = true;
    explanation.bytes_text.clear();
  }
  return explanation;
}

}  // namespace plimsoll::explain
