// Dumps of TensorFlow's and JAX's allocators: BFC in its four eras, cuda_malloc_async, Intel's, and
// the list of live tensors.

#include <algorithm>
#include <utility>

#include "explain/detect/facts.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

Pool& pool_for(Facts& facts, size_t at, bool fresh) {
  if (facts.pools.empty() || (fresh && facts.pools.size() < 200)) {
    facts.pools.emplace_back();
    facts.pools.back().at = at;
  }
  facts.pools.back().seen = true;
  return facts.pools.back();
}

// The word that ends before `at`, through soft breaks.
std::string word_before(const Document& document, size_t at) {
  const std::string& text = document.text();
  while (at > 0 && (text[at - 1] == ' ' || text[at - 1] == kSoftBreak)) --at;
  std::string word;
  for (; at > 0 && (is_word(text[at - 1]) || text[at - 1] == kSoftBreak); --at) {
    if (text[at - 1] != kSoftBreak) word.insert(word.begin(), text[at - 1]);
  }
  return word;
}

// "Allocator (GPU_0_bfc) ran out…" -> the name before `at`.
std::string allocator_before(const Document& document, size_t at) {
  const size_t open = document.find_back("allocator (", at, 80);
  if (open == npos) return "";
  Cursor cursor(document, document.match("allocator (", open));
  return cursor.until(") ");
}

// The refused size after "trying to allocate ", with "(rounded to N)" and "requested by op X".
struct Request {
  Size size;
  std::optional<int64_t> rounded;
  std::string op;
};

std::optional<Request> read_request(const Document& document, size_t after) {
  Cursor cursor(document, after);
  const std::optional<Size> size = cursor.size();
  if (!size) return std::nullopt;
  Request request{*size, std::nullopt, ""};
  cursor.skip_blanks();
  if (cursor.literal("(rounded to ")) {
    request.rounded = cursor.inner_integer();
    cursor.seek(")", 20);
  }
  cursor.skip_blanks();
  if (cursor.literal("requested by op")) {
    // JAX leaves the name out; what stands in the next line is not it.
    request.op = cursor.word("");
    request.op.erase(0, request.op.find_first_not_of(' '));
    request.op.erase(std::min(request.op.find(' '), request.op.size()));
  }
  return request;
}

void add_nonfatal(const Document& document, Facts& facts, size_t at, const Request& request) {
  Finding finding;
  finding.family = Family::kTfNonfatalWarning;
  finding.framework = "tensorflow";
  finding.survivable = true;
  finding.allocator = allocator_before(document, at);
  finding.resource = resource_of_device("", finding.allocator);
  if (finding.resource == Resource::kNone) finding.resource = Resource::kGpuMemory;
  set_size(finding, request.size);
  finding.at = at;
  add_finding(facts, std::move(finding));
}

void add_refusal(const Document& document, Facts& facts, size_t at, const Request& request) {
  Finding finding;
  const bool intel = document.find("itex", document.start(document.line_index(at)), at) != npos;
  finding.family = intel ? Family::kItexAlloc : Family::kTfBfcDump;
  finding.framework = "tensorflow";
  finding.allocator = allocator_before(document, at);
  finding.resource = resource_of_device("", finding.allocator);
  if (finding.resource == Resource::kNone) finding.resource = Resource::kGpuMemory;
  set_size(finding, request.size);
  if (request.rounded && !request.size.exact) {
    finding.bytes = request.rounded;
    finding.bytes_exact = true;
  }
  finding.op = request.op;
  finding.at = at;

  Pool& pool = pool_for(facts, at, !facts.pools.empty() && facts.pools.back().request.has_value());
  pool.allocator = finding.allocator;
  pool.request = finding.bytes;
  pool.request_exact = finding.bytes_exact;
  pool.request_text = finding.bytes_text;
  pool.request_at = at;
  pool.request_op = request.op;
  add_finding(facts, std::move(finding));
}

void detect_requests(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "memory trying to allocate ";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    const std::optional<Request> request = read_request(document, document.match(kPhrase, at));
    if (!request) continue;
    const size_t end = document.record_end(at);
    if (document.find("not a failure", at, end) != npos) {
      add_nonfatal(document, facts, at, *request);
    } else {
      add_refusal(document, facts, at, *request);
    }
  }
}

void detect_async(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "cumemallocasync failed to allocate ";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    Cursor cursor(document, document.match(kPhrase, at));
    const std::optional<Size> size = cursor.size();
    if (!size) continue;
    Finding finding;
    finding.family = Family::kCudaMallocAsync;
    finding.resource = Resource::kGpuMemory;
    finding.at = at;
    set_size(finding, *size);
    finding.allocator = word_before(document, at);
    Pool& pool = pool_for(facts, at, true);
    pool.request = finding.bytes;
    pool.request_exact = true;
    pool.request_at = at;
    pool.allocator = finding.allocator;
    constexpr std::string_view kReport = "free memory/total memory: ";
    if (const size_t report = document.find(kReport, at, at + 600); report != npos) {
      Cursor figures(document, document.match(kReport, report));
      pool.device_free = figures.inner_integer();
      if (figures.literal("/")) pool.device_total = figures.integer();
      finding.amounts.free = pool.device_free;
      finding.amounts.capacity = pool.device_total;
    }
    add_finding(facts, std::move(finding));
  }
}

struct Label {
  std::string_view text;
  std::optional<int64_t> Pool::*field;
};

// "Limit:   3210821632", alone in its line or after "Stats: ".
void read_stat(const Document& document, std::string_view line, size_t at, Facts& facts) {
  static constexpr Label kLabels[] = {
      {"Limit:", &Pool::limit},
      {"InUse:", &Pool::in_use},
      {"MaxInUse:", &Pool::max_in_use},
      {"NumAllocs:", &Pool::num_allocs},
      {"MaxAllocSize:", &Pool::max_alloc_size},
  };
  size_t begin = line.find_first_not_of(' ');
  if (begin == npos) return;
  // After a progress bar that was not ended: "76.03it/s]Limit: …"
  if (const size_t glued = find_ignoring_case(line, "limit:");
      glued != npos && glued > 0 && (is_digit(line[glued - 1]) || line[glued - 1] == ']')) {
    begin = glued;
  }
  for (const Label& label : kLabels) {
    if (!equals_ignoring_case(line.substr(begin, label.text.size()), label.text)) continue;
    Cursor cursor(document, at + begin + label.text.size());
    cursor.skip_blanks();
    const std::optional<int64_t> value = cursor.integer();
    const char after = cursor.at_end() ? '\n' : document.text()[cursor.at()];
    if (!value || (after != ' ' && after != '\n' && after != kSoftBreak)) return;
    const bool is_limit = label.field == &Pool::limit;
    // The region line before it has a limit too; figures of another dump have an in-use figure.
    Pool& pool = pool_for(
        facts, at, is_limit && !facts.pools.empty() && facts.pools.back().in_use.has_value());
    // A limit of 0 means none, except that a dump's other figures still count.
    if (!(is_limit && *value == 0)) pool.*label.field = value;
    return;
  }
}

void read_region_line(const Document& document, size_t at, Facts& facts) {
  const bool other_dump =
      !facts.pools.empty() && (facts.pools.back().in_use || facts.pools.back().region_bytes);
  Pool& pool = pool_for(facts, at, other_dump);
  Cursor cursor(document, document.match("total_region_allocated_bytes_: ", at));
  pool.region_bytes = cursor.inner_integer();
  if (cursor.seek("memory_limit_: ", 80)) pool.limit = cursor.inner_integer();
  if (cursor.seek("available bytes: ", 80)) pool.available = cursor.inner_integer();
  if (cursor.seek("curr_region_allocation_bytes_: ", 80)) pool.growth_bytes = cursor.integer();
}

void read_bin_line(const Document& document, size_t at, size_t after, Facts& facts) {
  Cursor cursor(document, after);
  const std::optional<Size> size = cursor.size();
  if (!size || !cursor.literal(" was ")) return;
  Pool& pool = pool_for(facts, at, false);
  if (pool.request) return;
  pool.request = size->bytes;
  pool.request_exact = size->exact;
  pool.request_text = size->text;
  pool.request_at = at;
}

// In the order of the log, since a dump's lines belong together.
void detect_figures(const Document& document, Facts& facts) {
  constexpr std::string_view kRegion = "total_region_allocated_bytes_: ";
  constexpr std::string_view kBin = "bin for ";
  constexpr std::string_view kStats = "stats: limit:";
  size_t stats = document.find(kStats);
  size_t region = document.find(kRegion);
  size_t bin = document.find(kBin);
  for (size_t i = 0; i < document.line_count(); ++i) {
    const std::string_view line = document.line(i);
    const size_t end = document.start(i) + line.size();
    for (; bin < end; bin = document.find(kBin, bin + 1)) {
      read_bin_line(document, bin, document.match(kBin, bin), facts);
    }
    for (; region < end; region = document.find(kRegion, region + 1)) {
      read_region_line(document, region, facts);
    }
    for (; stats < end; stats = document.find(kStats, stats + 1)) {
      const size_t limit = document.find("limit:", stats);
      read_stat(document, "limit:", limit, facts);
    }
    if (line.find(':') != npos) read_stat(document, line, document.start(i), facts);
  }
}

// The dump's own title names the allocator where the refusal does not.
void detect_dump_title(const Document& document, Facts& facts) {
  constexpr std::string_view kDump = "bfcallocator dump for ";
  const size_t dump = document.find(kDump);
  if (dump == npos) return;
  Cursor cursor(document, document.match(kDump, dump));
  const std::string name = cursor.word(" ");
  for (Pool& pool : facts.pools) {
    if (pool.allocator.empty()) pool.allocator = name;
  }
}

void detect_tensor_list(const Document& document, Facts& facts) {
  constexpr std::string_view kHead = "current usage from device: ";
  const size_t at = document.find(kHead);
  if (at == npos) return;
  TensorList& list = facts.tensors;
  list.at = at;
  Cursor cursor(document, document.match(kHead, at));
  list.device = cursor.until(", ");
  if (cursor.seek("allocator: ", 20)) list.allocator = cursor.until(" ");
  for (size_t i = document.line_index(cursor.at()) + 1; i < document.line_count(); ++i) {
    Cursor row(document, document.start(i));
    row.skip_blanks();
    if (row.literal("remaining ")) {
      row.integer();
      if (row.literal(" nodes with ")) {
        if (const std::optional<Size> rest = row.size()) list.sum += rest->bytes;
      }
      break;
    }
    const std::optional<Size> size = row.size();
    if (!size || !row.literal(" from ")) break;
    list.sum += std::min<int64_t>(size->bytes, int64_t{1} << 52);
    ++list.entries;
    if (size->bytes > list.largest_bytes) {
      list.largest_bytes = size->bytes;
      list.largest = row.until(" ");
    }
  }
  Finding finding;
  finding.family = Family::kTfTensorList;
  finding.framework = "tensorflow";
  finding.device = list.device;
  finding.allocator = list.allocator;
  finding.resource = resource_of_device(list.device, list.allocator);
  finding.at = at;
  add_finding(facts, std::move(finding));
}

// A dump without the line that says what was refused.
void add_dump_finding(Facts& facts) {
  const bool chunks = facts.chunks.first_line != 0;
  if (facts.pools.empty() && !chunks) return;
  for (const Finding& known : facts.findings) {
    if (known.family == Family::kTfBfcDump || known.family == Family::kCudaMallocAsync) return;
  }
  const Pool& pool = facts.pools.empty() ? pool_for(facts, 0, true) : facts.pools.back();
  Finding finding;
  finding.family = Family::kTfBfcDump;
  finding.framework = "tensorflow";
  finding.bytes = pool.request;
  finding.bytes_exact = pool.request_exact;
  finding.bytes_text = pool.request_exact ? "" : pool.request_text;
  finding.at = pool.at;
  finding.allocator = pool.allocator;
  finding.resource = resource_of_device("", finding.allocator);
  if (finding.resource == Resource::kNone) finding.resource = Resource::kGpuMemory;
  add_finding(facts, std::move(finding));
}

}  // namespace

void detect_pool(const Document& document, Facts& facts) {
  detect_requests(document, facts);
  detect_async(document, facts);
  detect_figures(document, facts);
  detect_dump_title(document, facts);
  detect_tensor_list(document, facts);
  add_dump_finding(facts);
}

}  // namespace plimsoll::explain
