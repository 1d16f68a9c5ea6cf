// Limits that are counts, not bytes, under names that look like memory, disk or descriptors: what a
// service on the network allows, and what the kernel allows of inotify. Also the figures that stand
// beside messages which a table found.

#include <algorithm>
#include <array>
#include <utility>

#include "explain/detect/facts.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

bool near(const Document& document, std::string_view phrase, size_t at, size_t reach) {
  return document.find(phrase, at > reach ? at - reach : 0, at + reach) != npos;
}

// Within the record: a request that was tried again did not end the program by itself.
bool is_tried_again(const Document& document, size_t at) {
  const size_t begin = document.record_start(at);
  const size_t end = document.record_end(at);
  return document.find("retrying", begin, end) != npos ||
         document.find("backing off", begin, end) != npos;
}

void add_quota(const Document& document, Facts& facts, size_t at) {
  Finding finding;
  finding.family = Family::kTfExhausted;
  finding.resource = Resource::kOther;
  finding.note = "service_quota";
  finding.survivable = is_tried_again(document, at);
  finding.at = at;
  add_finding(facts, std::move(finding));
}

void detect_service_quota(const Document& document, Facts& facts) {
  // Telling by themselves.
  static constexpr std::array<std::string_view, 9> kPhrases = {"(e.g. check quota)",
                                                               "exceeded your current quota",
                                                               "insufficient_quota",
                                                               "rate limit reached for",
                                                               "rate_limit_exceeded",
                                                               "ratelimiterror",
                                                               "quota exceeded for quota metric",
                                                               "error code: 429",
                                                               "429 client error"};
  for (std::string_view phrase : kPhrases) {
    for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
      if (!document.is_quoted(at) || near(document, "error", at, 200))
        add_quota(document, facts, at);
    }
  }
  // Only beside the status of a refusal.
  static constexpr std::array<std::string_view, 4> kWeak = {
      "quota exceeded for", "too many requests", "resource has been exhausted", "quota metric"};
  for (std::string_view phrase : kWeak) {
    for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
      const bool refused = near(document, "resource_exhausted", at, 400) ||
                           near(document, "resourceexhausted", at, 400) ||
                           near(document, "resource exhausted", at, 400) ||
                           near(document, "429", at, 100);
      if (refused) add_quota(document, facts, at);
    }
  }
}

void detect_inotify(const Document& document, Facts& facts) {
  struct Phrase {
    std::string_view text;
    std::string_view with;
    std::string_view note;
  };
  static constexpr std::array<Phrase, 8> kPhrases = {
      {{"inotify watch limit reached", "", "inotify_watches"},
       {"number of file watchers reached", "", "inotify_watches"},
       {"number of inotify watches was reached", "", "inotify_watches"},
       {"inotify_add_watch", "no space left", "inotify_watches"},
       {"upper limit on inotify watches reached", "", "inotify_watches"},
       {"inotify instance limit reached", "", "inotify_instances"},
       {"inotify_init", "too many open files", "inotify_instances"},
       {"user limit on the total number of inotify instances", "", "inotify_instances"}}};
  for (const Phrase& phrase : kPhrases) {
    const size_t at = document.find(phrase.text);
    if (at == npos || (!phrase.with.empty() && !near(document, phrase.with, at, 120))) continue;
    Finding finding;
    finding.family = Family::kProcessLimit;
    finding.resource = Resource::kOther;
    finding.note = phrase.note;
    finding.at = at;
    // Its number has another meaning for files and disks.
    std::erase_if(facts.findings, [at](const Finding& other) {
      const size_t distance = other.at > at ? other.at - at : at - other.at;
      const bool files =
          other.family == Family::kDiskFull || other.family == Family::kTooManyOpenFiles;
      return files && distance < 200;
    });
    add_finding(facts, std::move(finding));
  }
}

std::optional<int64_t> size_near(const Document& document, std::string_view label, size_t at,
                                 size_t before, size_t after) {
  size_t found = document.find_back(label, at + 1, before);
  if (found == npos) found = document.find(label, at, at + after);
  if (found == npos) return std::nullopt;
  Cursor cursor(document, document.match(label, found));
  cursor.skip_blanks();
  const std::optional<Size> size = cursor.size();
  return size ? std::optional(size->bytes) : std::nullopt;
}

// V8's last line: "Mark-Compact (reduce) 1998.1 (2091.1) -> 1998.1 (2091.1) MB, …"
void complete_node(const Document& document, Finding& finding) {
  constexpr std::string_view kArrow = ") -> ";
  const size_t arrow = document.find_back(kArrow, finding.at, 4000);
  if (arrow == npos) return;
  Cursor cursor(document, document.match(kArrow, arrow));
  const std::string used = cursor.until(" (\n", 12);
  if (!cursor.literal(" (")) return;
  const std::string limit = cursor.until(")\n", 12);
  if (!cursor.literal(") mb")) return;
  size_t begin = 0;
  if (const auto bytes = read_bytes(used + " MB", begin)) {
    finding.amounts.in_use = round_to_bytes(*bytes);
  }
  begin = 0;
  if (const auto bytes = read_bytes(limit + " MB", begin)) {
    finding.amounts.limit = round_to_bytes(*bytes);
  }
}

}  // namespace

void detect_quotas(const Document& document, Facts& facts) {
  detect_service_quota(document, facts);
  detect_inotify(document, facts);
}

void complete_forms(const Document& document, Facts& facts) {
  constexpr size_t kFar = 60000;
  for (Finding& finding : facts.findings) {
    std::optional<int64_t>& limit = finding.amounts.limit;
    if (finding.framework == "dask" && !limit) {
      limit = size_near(document, "worker memory limit: ", finding.at, kFar, 2000);
    } else if (document.match("javascript heap", finding.at) != npos) {
      complete_node(document, finding);
    } else if (finding.note == "buffer" && !limit) {
      limit = size_near(document, "maximum allowed buffer size of ", finding.at, 200, 300);
    } else if (finding.note == "ephemeral" && !limit) {
      limit = size_near(document, "total limit of containers ", finding.at, 200, 300);
      if (!limit) limit = size_near(document, "exceeds the limit of ", finding.at, 200, 300);
    }
  }
}

}  // namespace plimsoll::explain
