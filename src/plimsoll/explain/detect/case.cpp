#include "explain/detect/case.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "explain/detect/framework.h"
#include "explain/read/exception_line.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

bool contains(std::string_view text, std::string_view phrase) {
  return find_ignoring_case(text, phrase) != std::string_view::npos;
}

// Findings further apart than this belong to different failures; the last one ended the run.
constexpr int64_t kFarLines = 2000;

bool is_aftermath(const Finding& finding) { return finding.family >= Family::kKilled; }

const Finding* most_telling(const std::vector<const Finding*>& findings) {
  const auto found =
      std::min_element(findings.begin(), findings.end(),
                       [](const Finding* a, const Finding* b) { return a->family < b->family; });
  return found == findings.end() ? nullptr : *found;
}

// Where Python says that the exception at `at` came while another was handled: what the other,
// which is the cause, consists of.
std::vector<const Finding*> before_handling(const Document& document,
                                            const std::vector<const Finding*>& findings,
                                            size_t at) {
  constexpr std::string_view kPhrase = "during handling of the above exception";
  constexpr size_t kReach = 6000;
  std::vector<const Finding*> before;
  const size_t handling = document.find_back(kPhrase, at, kReach);
  if (handling == std::string::npos) return before;
  for (const Finding* finding : findings) {
    const bool refused =
        finding->resource == Resource::kGpuMemory || finding->resource == Resource::kHostMemory;
    if (refused && !is_aftermath(*finding) && finding->at < handling &&
        finding->at + kReach > handling) {
      before.push_back(finding);
    }
  }
  return before;
}

// Whether the program trained on between two lines: figures of its progress that advance, in the
// usual words or in any form after a refusal.
bool went_on(const Facts& facts, int64_t after, int64_t before) {
  for (const FurtherProgress& further_progress : facts.further_progress) {
    if (further_progress.after >= after && further_progress.after < before &&
        further_progress.line <= before)
      return true;
  }
  constexpr int kEnough = 3;
  int advances = 0;
  std::pair<int64_t, int64_t> last{-1, -1};
  for (const Progress& progress : facts.context.progress) {
    if (progress.line <= after || progress.line >= before) continue;
    const std::pair<int64_t, int64_t> now{progress.epoch.value_or(0), progress.step.value_or(0)};
    advances += now > last ? 1 : 0;
    last = std::max(last, now);
  }
  return advances >= kEnough;
}

// Somebody else ended the process, so that what follows is another one.
bool is_kill(const Finding& finding) {
  switch (finding.family) {
    case Family::kOomKiller:
    case Family::kSlurmOom:
    case Family::kSchedulerLimit:
    case Family::kK8s:
    case Family::kRayOom:
    case Family::kColab:
    case Family::kKilled:
      return true;
    default:
      return false;
  }
}

// A server that had something refused, tried with less, and takes requests.
bool serves(const Document& document, const Facts& facts, size_t after) {
  static constexpr std::string_view kPhrases[] = {
      "listening on",   "startup complete", "server started", "model loaded",
      "slots are idle", "ready to accept",  "running on http"};
  const bool ended = std::any_of(facts.endings.begin(), facts.endings.end(),
                                 [after](const Finding& ending) { return ending.at > after; });
  if (ended) return false;
  return std::any_of(std::begin(kPhrases), std::end(kPhrases), [&](std::string_view phrase) {
    const size_t at = document.find(phrase, after);
    return at != std::string::npos && !document.is_quoted(at);
  });
}

// "Done. wrote 400 blocks": a last word. "saved", "completed" and the like are said of many things.
bool says_done(std::string_view line) {
  for (std::string_view word : {"done", "finished"}) {
    const bool begins = equals_ignoring_case(line.substr(0, word.size()), word);
    if (begins && (line.size() == word.size() || !is_word(line[word.size()]))) return true;
  }
  return false;
}

// Words of a run that came to its end after a refusal. A traceback that ends in the refusal was
// most likely the end itself, so that only what says that the training is over counts then.
bool finishes(const Document& document, const Facts& facts, size_t after) {
  static constexpr std::string_view kSurely[] = {
      "training complete",   "finished training", "training finished", "study finished",
      "finished with value", "'train_runtime'",   "\" 200 ok",         "status: succeeded"};
  const bool ended = std::any_of(facts.endings.begin(), facts.endings.end(),
                                 [after](const Finding& ending) { return ending.at > after; });
  if (ended) return false;
  if (std::any_of(std::begin(kSurely), std::end(kSurely), [&](std::string_view phrase) {
        return document.find(phrase, after) != std::string::npos;
      })) {
    return true;
  }
  constexpr size_t kReach = 600;
  const bool raised =
      std::any_of(facts.context.tracebacks.begin(), facts.context.tracebacks.end(),
                  [after](const Traceback& traceback) {
                    return traceback.end <= after + kReach && traceback.end + kReach >= after;
                  });
  if (raised) return false;
  constexpr size_t kLastLines = 8;
  const size_t refused = document.line_index(after);
  const size_t count = document.line_count();
  for (size_t i = std::max(refused + 1, count > kLastLines ? count - kLastLines : 0); i < count;
       ++i) {
    if (says_done(document.line(i))) return true;
  }
  return false;
}

// The row of refusals of falling sizes that `main` belongs to. `group` is one failure in the order
// of the log, so that nothing went on between them.
std::optional<SmallerTries> smaller_tries(const std::vector<const Finding*>& group,
                                          const Finding& main) {
  constexpr int kEnough = 3;
  std::vector<const Finding*> row;
  for (const Finding* finding : group) {
    const bool same = finding->family == main.family && finding->resource == main.resource &&
                      finding->device == main.device && finding->op == main.op && finding->bytes;
    if (!same) continue;
    const bool falls = !row.empty() && *finding->bytes <= *row.back()->bytes && !finding->after_gap;
    const bool holds_main = std::find(row.begin(), row.end(), &main) != row.end();
    if (!falls && holds_main) break;
    if (!falls) row.clear();
    row.push_back(finding);
  }
  if (std::find(row.begin(), row.end(), &main) == row.end()) return std::nullopt;
  SmallerTries tries{*row.front()->bytes, *row.back()->bytes, 1, row.back()->at};
  for (size_t i = 1; i < row.size(); ++i) tries.sizes += *row[i]->bytes < *row[i - 1]->bytes;
  // Two threads that ask for about as much try nothing.
  const bool falls_far = tries.last <= tries.first / 4 * 3;
  return tries.sizes >= kEnough && falls_far ? std::optional(tries) : std::nullopt;
}

struct Choice {
  const Finding* main = nullptr;
  bool survived = false;
  size_t last = 0;  // where the last refusal of its group stands
  const Finding* overcome = nullptr;
  bool fatal = false;  // though such a refusal is often survived
  std::optional<SmallerTries> tries;
};

Choice choose_refusal(const Document& document, const Facts& facts) {
  std::vector<const Finding*> fatal;
  for (const Finding& finding : facts.findings) {
    if (!finding.survivable) fatal.push_back(&finding);
  }
  const bool only_warnings = fatal.empty();
  if (only_warnings) {
    for (const Finding& finding : facts.findings) fatal.push_back(&finding);
  }
  if (fatal.empty()) return {};
  std::stable_sort(fatal.begin(), fatal.end(),
                   [](const Finding* a, const Finding* b) { return a->at < b->at; });
  // Where the last group begins: after progress, which shows that what came before was survived,
  // or far after. Exit codes alone are the end of what came before.
  size_t begin = 0;
  for (size_t i = 1; i < fatal.size(); ++i) {
    const int64_t line = document.number_at(fatal[i]->at);
    const int64_t before = document.number_at(fatal[i - 1]->at);
    const bool new_failure =
        std::any_of(fatal.begin() + static_cast<std::ptrdiff_t>(i), fatal.end(),
                    [](const Finding* s) { return !is_aftermath(*s); });
    const bool far = line - before > kFarLines && new_failure;
    if (far || went_on(facts, before, line)) begin = i;
  }
  const size_t last = fatal.back()->at;
  const int64_t last_line = document.number_at(last);
  fatal.erase(fatal.begin(), fatal.begin() + static_cast<std::ptrdiff_t>(begin));
  const Finding* best = most_telling(fatal);
  const Finding* first = most_telling(before_handling(document, fatal, best->at));
  if (first != nullptr && first->resource != best->resource) best = first;
  const bool killed = std::any_of(fatal.begin(), fatal.end(), [](auto* s) { return is_kill(*s); });
  // After a kill only the end of the run shows that it was another process that was killed.
  const bool survived =
      !only_warnings &&
      (finishes(document, facts, last) ||
       (!killed && (went_on(facts, last_line, std::numeric_limits<int64_t>::max()) ||
                    serves(document, facts, last))));
  return {best, survived, last, nullptr, false, smaller_tries(fatal, *best)};
}

// The last of the most telling ones; what others report of a process that failed comes after.
const Finding* last_ending(const Facts& facts) {
  const Finding* best = nullptr;
  const auto rank = [](const Finding& ending) {
    return std::pair(is_consequence(ending.note), ending.family);
  };
  for (const Finding& ending : facts.endings) {
    if (best == nullptr || rank(ending) <= rank(*best)) best = &ending;
  }
  return best;
}

// A driver refused memory and the program gave up at once: a check that failed.
bool aborted_over(const Document& document, const Finding& refusal, size_t last,
                  const Finding& ending) {
  constexpr int64_t kAtOnce = 20;  // lines
  return refusal.family == Family::kTfDriverAlloc && ending.family == Family::kCrash &&
         ending.note == "SIGABRT" &&
         document.number_at(ending.at) - document.number_at(last) <= kAtOnce;
}

// A refusal that ended the program explains its end; one that did not leaves that to what came
// after it.
Choice choose(const Document& document, const Facts& facts) {
  const Choice refusal = choose_refusal(document, facts);
  const Finding* ending = last_ending(facts);
  if (ending == nullptr) return refusal;
  if (refusal.main == nullptr) return {ending, false, ending->at, nullptr, false, {}};
  const bool harmless =
      refusal.survived || refusal.main->survivable || refusal.main->family == Family::kMemorySeries;
  if (!harmless || ending->at < refusal.last) return refusal;
  if (aborted_over(document, *refusal.main, refusal.last, *ending)) {
    return {refusal.main, false, refusal.last, nullptr, true, refusal.tries};
  }
  return {ending, false, ending->at, refusal.survived ? refusal.main : nullptr, false, {}};
}

// The traceback that ends closely before the message, else the last one.
const Traceback* traceback_of(const Context& context, size_t at) {
  constexpr size_t kReach = 6000;
  const Traceback* best = nullptr;
  for (const Traceback& traceback : context.tracebacks) {
    if (traceback.end <= at && at - traceback.end < kReach) best = &traceback;
  }
  if (best == nullptr && !context.tracebacks.empty()) best = &context.tracebacks.back();
  return best;
}

bool fits_shape(std::optional<int64_t> shape_bytes, std::optional<int64_t> bytes) {
  if (!shape_bytes || !bytes) return true;
  return *bytes >= *shape_bytes && *bytes - *shape_bytes <= std::max(kMiB, *shape_bytes / 50);
}

bool is_tensorflow_group(Family family) {
  switch (family) {
    case Family::kTfOomLine:
    case Family::kTfDisguised:
    case Family::kTfBfcDump:
    case Family::kTfExhausted:
    case Family::kTfDriverAlloc:
    case Family::kTfNonfatalWarning:
    case Family::kTfTensorList:
    case Family::kItexAlloc:
    case Family::kCudaMallocAsync:
    case Family::kJaxBufferAssignment:
    case Family::kJaxOomLine:
      return true;
    default:
      return false;
  }
}

void take_size(Finding& main, const Finding& other) {
  main.bytes = other.bytes;
  main.bytes_exact = other.bytes_exact;
  main.bytes_text = other.bytes_text;
}

// Gaps of one TensorFlow or XLA failure are filled from its other lines.
void complete_tensorflow(Case& found) {
  Finding& main = found.main;
  for (const Finding& other : found.facts.findings) {
    if (!is_tensorflow_group(other.family)) continue;
    const bool refusal =
        other.family == Family::kTfBfcDump || other.family == Family::kCudaMallocAsync ||
        other.family == Family::kJaxOomLine || other.family == Family::kJaxBufferAssignment;
    if (!main.bytes && refusal && other.bytes && fits_shape(found.shape_bytes, other.bytes)) {
      take_size(main, other);
    }
    const bool same_resource = main.resource == Resource::kNone || other.resource == main.resource;
    if (!same_resource) continue;
    if (main.allocator.empty()) main.allocator = other.allocator;
    if (main.device.empty() && other.family != Family::kTfBfcDump) main.device = other.device;
    if (main.op.empty()) {
      main.op = other.op;
      main.op_type = other.op_type;
    }
    if (main.kernel_file.empty()) main.kernel_file = other.kernel_file;
  }
  if (!main.bytes && main.family != Family::kTfOomLine && main.family != Family::kTfBfcDump) {
    if (const Finding* driver = found.first(Family::kTfDriverAlloc)) take_size(main, *driver);
  }
  if (main.family == Family::kTfDriverAlloc || main.family == Family::kTfNonfatalWarning) {
    if (const Finding* warning = found.first(Family::kTfNonfatalWarning)) {
      if (main.allocator.empty()) main.allocator = warning->allocator;
    }
  }
}

// The same failure printed by several writers: one names the kernel, another the operator.
void complete_from_twins(Case& found) {
  Finding& main = found.main;
  for (const Finding& other : found.facts.findings) {
    if (other.family != main.family || other.resource != main.resource) continue;
    // "204800.00 MiB" of one writer and "214748364800" of the other.
    if (other.bytes && main.bytes && other.bytes_exact && !main.bytes_exact &&
        std::llabs(*other.bytes - *main.bytes) <= *main.bytes / 200) {
      take_size(main, other);
    }
    if (other.bytes && main.bytes && other.bytes != main.bytes) continue;
    if (other.shape && main.shape && other.shape != main.shape) continue;
    if (main.op.empty()) {
      main.op = other.op;
      main.op_type = other.op_type;
    }
    if (main.kernel_file.empty()) main.kernel_file = other.kernel_file;
    if (main.device.empty()) main.device = other.device;
  }
}

void choose_pool(Case& found) {
  const std::vector<Pool>& pools = found.facts.pools;
  if (pools.empty()) return;
  found.pool = pools.back();
  for (const Pool& pool : pools) {
    if (pool.request && pool.request == found.main.bytes) {
      found.pool = pool;
      break;
    }
  }
  // The figures may stand with another entry when the log repeats the request.
  if (!found.pool.limit && !found.pool.in_use) {
    for (const Pool& pool : pools) {
      if (!pool.limit && !pool.in_use) continue;
      const Pool request = found.pool;
      found.pool = pool;
      if (!found.pool.request) {
        found.pool.request = request.request;
        found.pool.request_at = request.request_at;
      }
      break;
    }
  }
  found.pool.chunks = found.facts.chunks;
  found.pool.seen = true;
}

// "training/Adam/gradients/block/Conv2D_grad/…" is a gradient that the optimizer's scope holds, of
// an activation as likely as of a weight: what it is of stands after.
std::string_view without_gradient_scope(std::string_view op) {
  for (std::string_view scope : {"gradients/", "gradients_1/", "gradients_2/"}) {
    const size_t at = op.find(scope);
    if (at != std::string_view::npos) return op.substr(at + scope.size());
  }
  return op;
}

bool is_weight_name(std::string_view whole) {
  const std::string_view op = without_gradient_scope(whole);
  static constexpr std::string_view kMarks[] = {
      "/adam",       "adam/",      "adam_",       "momentum",         "rmsprop",
      "adagrad",     "optimizer",  "initializer", "truncated_normal", "random_uniform",
      "/assign",     "zeros_like", "exp_avg",     "varhandle",        "create_slots",
      "_init_group", "glorot",     "he_normal"};
  for (std::string_view mark : kMarks) {
    if (contains(op, mark)) return true;
  }
  return false;
}

// [3,3,512,1024], [2,2,2,512,512]: a convolution's filter as TensorFlow stores it.
bool is_filter_shape(const std::vector<int64_t>& shape) {
  if (shape.size() != 4 && shape.size() != 5) return false;
  const size_t spatial = shape.size() - 2;
  for (size_t i = 0; i < spatial; ++i) {
    if (shape[i] != shape[0] || shape[i] > 11) return false;
  }
  return shape[spatial] >= 3 && shape[spatial + 1] >= 8 &&
         shape[spatial] * shape[spatial + 1] >= 1024;
}

void judge_shape(Case& found) {
  const Finding& main = found.main;
  found.weights = is_weight_name(main.op) || contains(main.op_type, "apply") ||
                  contains(main.op_type, "varhandle") || contains(main.op_type, "assign");
  if (!main.shape) return;
  const std::vector<int64_t>& shape = *main.shape;
  found.weights = found.weights || is_filter_shape(shape) || shape.size() < 2;
  if (found.weights) return;
  const std::optional<int64_t> known = found.facts.context.batch_size;
  if (known && shape[0] % *known == 0 && shape[0] > 1) {
    found.batch = known;
  } else if (shape.size() >= 3 && shape[0] > 1 && shape[0] <= 4096 &&
             main.family == Family::kTfOomLine && !(shape.size() == 3 && shape[2] <= 4)) {
    found.batch = shape[0];
  } else if (shape.size() == 2 && shape[0] > 1 && shape[0] <= 1024 &&
             main.family == Family::kTfOomLine) {
    found.batch = shape[0];
  }
}

}  // namespace

std::optional<int64_t> element_bytes(std::string_view dtype) {
  struct Type {
    std::string_view name;
    int64_t bytes;
  };
  static constexpr Type kTypes[] = {
      {"float", 4},  {"float32", 4}, {"f32", 4},     {"double", 8},    {"float64", 8},
      {"f64", 8},    {"half", 2},    {"float16", 2}, {"f16", 2},       {"bfloat16", 2},
      {"bf16", 2},   {"int64", 8},   {"s64", 8},     {"int32", 4},     {"s32", 4},
      {"int16", 2},  {"int8", 1},    {"uint8", 1},   {"uint16", 2},    {"uint32", 4},
      {"uint64", 8}, {"bool", 1},    {"pred", 1},    {"complex64", 8}, {"complex128", 16},
      {"s8", 1},     {"u8", 1},      {"u32", 4},     {"qint8", 1},     {"object", 8},
  };
  for (const Type& type : kTypes) {
    if (type.name == dtype) return type.bytes;
  }
  return std::nullopt;
}

std::optional<int64_t> tensor_bytes(const std::vector<int64_t>& shape, std::string_view dtype) {
  std::optional<int64_t> bytes = element_bytes(dtype);
  if (!bytes) return std::nullopt;
  for (int64_t dim : shape) {
    if (dim != 0 && *bytes > kLargestNumber / dim) return std::nullopt;
    *bytes *= dim;
  }
  return bytes;
}

bool Case::has(Family family) const { return first(family) != nullptr; }

const Finding* Case::first(Family family) const {
  for (const Finding& finding : facts.findings) {
    if (finding.family == family) return &finding;
  }
  return nullptr;
}

std::string Case::code_text() const { return code ? document.quote(code->at) : ""; }

Case build_case(const Document& document, const Facts& facts) {
  Case found{.document = document, .facts = facts};
  const Choice choice = choose(document, facts);
  const Finding* main = choice.main;
  if (main == nullptr) return found;
  found.found = true;
  found.survived = choice.survived;
  found.tries = choice.tries;
  found.main = *main;
  if (choice.fatal) found.main.survivable = false;
  if (choice.overcome != nullptr) found.overcome = *choice.overcome;
  if (found.main.dtype.empty() && main->shape) found.main.dtype = main->attribute_dtype;
  found.dtype = found.main.dtype;
  if (main->shape) found.shape_bytes = tensor_bytes(*main->shape, found.dtype);
  complete_from_twins(found);
  if (is_tensorflow_group(main->family)) complete_tensorflow(found);
  if (main->family == Family::kKilled && !found.main.bytes) {
    if (const Finding* warning = found.first(Family::kTfCpuWarning)) {
      take_size(found.main, *warning);
    }
  }
  choose_pool(found);
  if (found.main.allocator.empty() && found.main.family == Family::kTfBfcDump) {
    found.main.allocator = found.pool.allocator;
  }
  found.code = code_above(document, found.main.at);
  found.traceback = traceback_of(facts.context, found.main.at);
  found.framework = framework_of(document, facts, *main);
  // A fault of the device is reported at some later call.
  const bool names = found.code && found.main.family != Family::kDeviceFault;
  if (found.main.op.empty() && names && found.framework != "tensorflow") {
    found.main.op = found.code->op;
  }
  if (found.main.op.empty() && main->family == Family::kMemoryErrorBare && found.code) {
    found.main.op = found.code->op;
  }
  found.request = found.main.bytes ? found.main.bytes : found.shape_bytes;
  judge_shape(found);
  return found;
}

}  // namespace plimsoll::explain
