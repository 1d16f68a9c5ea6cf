// Limits that are not memory, or not device memory, and are often mistaken for it: descriptors,
// disk, shared memory, sizes of messages, Windows' commit limit.

#include <algorithm>
#include <utility>

#include "explain/detect/facts.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"
#include "explain/read/tf_node.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

bool near(const Document& document, std::string_view phrase, size_t at, size_t reach) {
  const size_t from = at > reach ? at - reach : 0;
  return document.find(phrase, from, at + reach) != npos;
}

// What stands between the last ": " and `end` in its record: the path of "…Error: a b.txt; Too
// many".
std::string path_before(const Document& document, size_t end) {
  const size_t begin = document.start(document.line_index(end));
  const std::string_view before = std::string_view(document.text()).substr(begin, end - begin);
  const size_t semicolon = before.rfind(';');
  if (semicolon == npos) return "";
  size_t colon = before.rfind(": ", semicolon);
  colon = colon == npos ? 0 : colon + 2;
  std::string path(before.substr(colon, semicolon - colon));
  std::replace(path.begin(), path.end(), kSoftBreak, ' ');
  return path.find('/') == npos && path.find('\\') == npos ? "" : path;
}

Finding limit_finding(const Document& document, Family family, Resource resource, size_t at) {
  Finding finding;
  finding.family = family;
  finding.resource = resource;
  finding.at = at;
  finding.kernel_file = kernel_file_before(document, at);
  const std::string op = eager_tf_op(document, at);
  if (!op.empty()) {
    finding.op = op;
    finding.op_type = op;
  } else if (const std::optional<TfNode> node = next_tf_node(document, at)) {
    finding.op = node->name;
    finding.op_type = node->op_type;
    finding.device = node->device;
  }
  return finding;
}

void detect_descriptors(const Document& document, Facts& facts) {
  for (std::string_view phrase : {"too many open files", "[errno 24]", "0 items of ancdata",
                                  "unable to open shared memory object"}) {
    for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
      // An object that is gone, or another user's: no limit.
      const size_t end = document.record_end(at);
      if (document.find("permission denied", at, end) != npos ||
          document.find("no such file or directory", at, end) != npos) {
        continue;
      }
      Finding finding =
          limit_finding(document, Family::kTooManyOpenFiles, Resource::kFileDescriptors, at);
      finding.path = path_before(document, at);
      finding.note = near(document, "ancdata", at, 80) ? "ancdata" : "";
      add_finding(facts, std::move(finding));
    }
  }
}

bool is_shared_memory(const Document& document, size_t at) {
  return near(document, "semlock", at, 1500) || near(document, "/torch_", at, 400) ||
         near(document, "/dev/shm", at, 400) || near(document, "'/psm_", at, 80) ||
         near(document, "shared memory segment", at, 400) ||
         near(document, "shared memory(shm)", at, 400) || near(document, "bus error", at, 1500);
}

void detect_disk(const Document& document, Facts& facts) {
  for (std::string_view phrase :
       {"no space left on device", "[errno 28]", "quota exceeded", "[errno 122]"}) {
    for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
      const bool quota = phrase == "quota exceeded";
      if (quota && !near(document, "disk quota", at, 6) && !near(document, "errno 122", at, 20)) {
        continue;  // a service's quota of requests
      }
      if (near(document, "inotify watch limit", at, 30)) continue;  // a count of watches
      if (!quota && is_shared_memory(document, at)) {
        Finding finding = limit_finding(document, Family::kShmBusError, Resource::kShm, at);
        finding.note = "full";
        if (const size_t segment =
                document.find("shared memory segment", at > 400 ? at - 400 : 0, at + 400);
            segment != npos) {
          Cursor cursor(document, segment);
          if (cursor.seek("(size ", 200) || cursor.seek("\" to ", 200)) {
            set_exact_bytes(finding, cursor.inner_integer());
          }
        }
        add_finding(facts, std::move(finding));
        continue;
      }
      Finding finding = limit_finding(document, Family::kDiskFull, Resource::kDisk, at);
      finding.note = quota || phrase == "[errno 122]" ? "quota" : "full";
      finding.path = path_before(document, at);
      add_finding(facts, std::move(finding));
    }
  }
}

void detect_bus_error(const Document& document, Facts& facts) {
  const bool insufficient = document.find("insufficient shared memory") != npos ||
                            document.find("unable to write to file </torch_") != npos;
  for (std::string_view phrase :
       {"unexpected bus error encountered in worker",
        "unexpected bus error encountered in dataloader worker", "killed by signal: bus error",
        "unable to write to file </torch_"}) {
    const size_t at = document.find(phrase);
    if (at == npos) continue;
    Finding finding = limit_finding(document, Family::kShmBusError, Resource::kShm, at);
    finding.op.clear();
    finding.op_type.clear();
    finding.note = insufficient ? "full" : "bus";
    if (finding.framework.empty()) finding.framework = "pytorch";
    add_finding(facts, std::move(finding));
  }
}

// unable to allocate shared memory(shm) for file </torch_740_3854540985_0>: Resource temporarily
// unavailable (11). The number is often no reason ("Success (0)"); what speaks of names, rights or
// descriptors is.
void detect_shm_allocation(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "unable to allocate shared memory(shm) for file";
  static constexpr std::string_view kOther[] = {"permission denied", "no such file", "file exists",
                                                "too many open files"};
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    const size_t end = document.record_end(at);
    const bool other = std::any_of(
        std::begin(kOther), std::end(kOther),
        [&](std::string_view phrase) { return document.find(phrase, at, end) != npos; });
    if (other) continue;
    Finding finding;
    finding.family = Family::kShmBusError;
    finding.resource = Resource::kShm;
    finding.framework = "pytorch";
    finding.note = "full";
    finding.at = at;
    add_finding(facts, std::move(finding));
  }
}

void detect_message_size(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = "message larger than max ";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    Finding finding;
    finding.family = Family::kGrpcMessageSize;
    finding.resource = Resource::kMessageSize;
    finding.at = at;
    Cursor cursor(document, document.match(kPhrase, at));
    if (cursor.literal("(")) {
      set_exact_bytes(finding, cursor.inner_integer());
      cursor.skip_blanks();
      if (cursor.literal("vs.")) {
        cursor.skip_blanks();
        finding.line_limit = cursor.inner_integer();
      }
    }
    const size_t sent = document.find_back("sent", at, 6);
    finding.note = sent == npos ? "received" : "sent";
    add_finding(facts, std::move(finding));
  }
}

void add_proto(const Document& document, Facts& facts, size_t at, std::optional<int64_t> bytes,
               int64_t limit) {
  Finding finding;
  finding.family = Family::kProtobuf2Gb;
  finding.resource = Resource::kMessageSize;
  finding.at = at;
  set_exact_bytes(finding, bytes);
  finding.line_limit = limit;
  finding.note =
      document.find("tensor proto", at > 60 ? at - 60 : 0, at + 20) != npos ? "tensor" : "";
  add_finding(facts, std::move(finding));
}

void detect_proto(const Document& document, Facts& facts) {
  constexpr int64_t kTwoGb = 2147483647;
  constexpr std::string_view kRejected = "too big (more than ";
  if (const size_t at = document.find(kRejected); at != npos) {
    Cursor cursor(document, document.match(kRejected, at));
    const std::optional<int64_t> limit = cursor.inner_integer();
    add_proto(document, facts, at, limit, limit.value_or(kTwoGb));
  }
  constexpr std::string_view kSerialized = "serialized size (";
  if (const size_t at = document.find(kSerialized); at != npos) {
    Cursor cursor(document, document.match(kSerialized, at));
    add_proto(document, facts, at, cursor.inner_integer(), kTwoGb);
  }
  constexpr std::string_view kMaximum = "maximum protobuf size of 2gb";
  if (const size_t at = document.find(kMaximum); at != npos) {
    Cursor cursor(document, document.match(kMaximum, at));
    cursor.literal(":");
    cursor.skip_blanks();
    add_proto(document, facts, at, cursor.integer(), kTwoGb);
  }
  for (std::string_view phrase : {"larger than 2gb", "over the 2gb limit", "exceeds the 2gb limit",
                                  "exceeded maximum protobuf"}) {
    if (const size_t at = document.find(phrase); at != npos) {
      add_proto(document, facts, at, std::nullopt, kTwoGb);
    }
  }
}

void detect_windows(const Document& document, Facts& facts) {
  for (std::string_view phrase : {"winerror 1455", "os error 1455", "error: 1455", "error 1455",
                                  "paging file is too small"}) {
    const size_t at = document.find(phrase);
    if (at == npos) continue;
    Finding finding;
    finding.family = Family::kWinPagefile;
    finding.resource = Resource::kHostMemory;
    finding.at = at;
    add_finding(facts, std::move(finding));
    return;
  }
}

// plimsoll: the limit 15 MiB (15728640 B) is below the lower bound 23.8 MiB (24985856 B): …
void detect_plimsoll(const Document& document, Facts& facts) {
  constexpr std::string_view kPhrase = " is below the lower bound ";
  constexpr std::string_view kLimit = "the limit ";
  for (size_t at = document.find(kPhrase); at != npos; at = document.find(kPhrase, at + 1)) {
    const size_t front = document.find_back(kLimit, at, 80);
    if (front == npos) continue;
    // Rounded, with the count of bytes in brackets after it.
    const auto read = [&](Cursor cursor) {
      std::optional<int64_t> bytes;
      if (const std::optional<Size> size = cursor.size()) bytes = size->bytes;
      cursor.skip_blanks();
      if (!cursor.literal("(")) return bytes;
      const std::optional<int64_t> exact = cursor.inner_integer();
      return exact ? exact : bytes;
    };
    Finding finding = limit_finding(document, Family::kPlimsollLimit, Resource::kHostMemory, at);
    finding.amounts.limit = read(Cursor(document, document.match(kLimit, front)));
    finding.amounts.program = read(Cursor(document, document.match(kPhrase, at)));
    if (!finding.amounts.limit || !finding.amounts.program) continue;
    add_finding(facts, std::move(finding));
  }
}

// plimsoll: does not fit: needs 23.9 MiB, 8.9 MiB above the limit of 15.0 MiB
// plimsoll: does not fit: the best plan found needs 45.7 MiB, 6.7 MiB above the limit of 39.0 MiB
void detect_plimsoll_answer(const Document& document, Facts& facts, std::string_view phrase) {
  constexpr std::string_view kLimit = " above the limit of ";
  for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
    const size_t limit = document.find(kLimit, at, at + 100);
    if (limit == npos) continue;
    const std::optional<Size> needed = Cursor(document, document.match(phrase, at)).size();
    const std::optional<Size> given = Cursor(document, document.match(kLimit, limit)).size();
    if (!needed || !given) continue;
    Finding finding = limit_finding(document, Family::kPlimsollLimit, Resource::kHostMemory, at);
    finding.amounts.limit = given->bytes;
    finding.amounts.program = needed->bytes;
    add_finding(facts, std::move(finding));
  }
}

}  // namespace

void detect_limits(const Document& document, Facts& facts) {
  detect_descriptors(document, facts);
  detect_bus_error(document, facts);
  detect_shm_allocation(document, facts);
  detect_disk(document, facts);
  detect_message_size(document, facts);
  detect_proto(document, facts);
  detect_windows(document, facts);
  detect_plimsoll(document, facts);
  detect_plimsoll_answer(document, facts, "does not fit: needs ");
  detect_plimsoll_answer(document, facts, "does not fit: the best plan found needs ");
}

// ResourceExhausted with nothing but a path after it: a full disk or no descriptors, never memory.
void detect_tensorflow_files(const Document& document, Facts& facts) {
  constexpr std::string_view kStatus = "resource";
  for (size_t at = document.find(kStatus); at != npos; at = document.find(kStatus, at + 1)) {
    Cursor cursor(document, document.match(kStatus, at));
    const std::string word = cursor.until(":;\"'`(", 60);
    // "Exhausted", "_EXHAUSTED", "ExhaustedError", "exaustated": typed by hand now and then.
    if (find_ignoring_case(word, "ex") > 1 || word.size() < 8) continue;
    if (cursor.peek() == '(') cursor.seek("): ", 60);
    if (cursor.peek() == ':') cursor.literal(":");
    cursor.skip_blanks();
    const size_t path_at = cursor.at();
    const char first = cursor.peek();
    const std::string path = cursor.until(" \"'`,;", 600);
    const bool drive = path.size() > 3 && path[1] == ':' && (path[2] == '\\' || path[2] == '/');
    const bool relative = path.find('/') != npos && path.find(':') == npos && path.size() > 5;
    if (!(first == '/' || first == '.' || drive || relative)) continue;
    if (find_ignoring_case(path, "/job:") != npos) continue;
    if (cursor.peek() == ';') continue;  // a reason follows, read above
    Finding finding = limit_finding(document, Family::kDiskFull, Resource::kOther, path_at);
    finding.framework = "tensorflow";
    finding.note = "path";
    finding.path = path;
    const bool saves = find_ignoring_case(path, ".tempstate") != npos ||
                       find_ignoring_case(finding.op_type, "save") != npos ||
                       near(document, "events file", at, 200);
    if (saves) finding.resource = Resource::kDisk;
    if (find_ignoring_case(finding.op_type, "restore") != npos) {
      finding.family = Family::kTooManyOpenFiles;
      finding.resource = Resource::kFileDescriptors;
      finding.note = "restore";
    }
    add_finding(facts, std::move(finding));
  }
}

}  // namespace plimsoll::explain
