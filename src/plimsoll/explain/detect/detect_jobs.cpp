// What a job had asked for and used, where its scheduler's tables or its own command line say so.

#include <algorithm>
#include <utility>

#include "explain/detect/facts.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

struct JobMemory {
  std::optional<int64_t> asked, used;
};

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < line.size() && words.size() < 40;) {
    constexpr std::string_view kBetween(" |\x01", 3);  // a long run of blanks is a soft break
    const size_t begin = line.find_first_not_of(kBetween, at);
    if (begin == npos) break;
    const size_t end = std::min(line.find_first_of(kBetween, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    at = end;
  }
  return words;
}

// "64G", "67100000K", "64Gn": what Slurm writes for memory; nothing for other words.
std::optional<int64_t> memory_of(std::string_view word) {
  if (!word.empty() && (word.back() == 'n' || word.back() == 'c')) word.remove_suffix(1);
  size_t at = 0;
  const std::optional<double> bytes = read_bytes(word, at);
  if (!bytes || at != word.size()) return std::nullopt;
  return round_to_bytes(*bytes);
}

// A row of sacct: the job has what was asked for, its steps have what was used; both where both
// columns are filled, in the order of the head.
void read_row(std::string_view row, bool asked_first, JobMemory& memory) {
  const std::vector<std::string_view> cells = words_of(row);
  if (cells.empty() || !is_digit(cells.front().front())) return;
  std::vector<int64_t> figures;
  for (size_t i = 1; i < cells.size(); ++i) {
    if (const std::optional<int64_t> bytes = memory_of(cells[i])) figures.push_back(*bytes);
  }
  const bool is_step = cells.front().find('.') != npos;
  if (figures.size() == 2) {
    const int64_t asked = figures[asked_first ? 0 : 1];
    memory.asked = std::max(memory.asked.value_or(0), asked);
    memory.used = std::max(memory.used.value_or(0), figures[asked_first ? 1 : 0]);
  } else if (figures.size() == 1) {
    std::optional<int64_t>& figure = is_step ? memory.used : memory.asked;
    figure = std::max(figure.value_or(0), figures.front());
  }
}

void read_accounting(const Document& document, JobMemory& memory) {
  for (size_t i = 0; i < document.line_count(); ++i) {
    const std::string_view head = document.line(i);
    const size_t asked = find_ignoring_case(head, "reqmem");
    if (asked == npos || find_ignoring_case(head, "jobid") == npos) continue;
    const bool asked_first = asked < find_ignoring_case(head, "maxrss");
    for (size_t row = i + 1; row < document.line_count() && row < i + 12; ++row) {
      read_row(document.line(row), asked_first, memory);
    }
    return;
  }
}

// "--mem=64G", "#SBATCH --mem 64G", "mem_mb=5000", "Memory Efficiency: 99.8% of 64.00 GB"
void read_request(const Document& document, JobMemory& memory) {
  if (const size_t at = document.find("% of "); at != npos && !memory.asked) {
    if (document.find_back("memory efficiency", at, 40) != npos) {
      Cursor cursor(document, document.match("% of ", at));
      if (const std::optional<Size> size = cursor.size()) memory.asked = size->bytes;
    }
  }
  if (memory.asked) return;
  if (const size_t at = document.find("mem_mb="); at != npos) {
    Cursor cursor(document, document.match("mem_mb=", at));
    const std::optional<int64_t> megabytes = cursor.integer();
    if (megabytes && *megabytes < (int64_t{1} << 32)) memory.asked = *megabytes << 20;
  }
  for (std::string_view option : {"--mem=", "--mem "}) {
    const size_t at = document.find(option);
    if (at == npos || memory.asked) continue;
    Cursor cursor(document, document.match(option, at));
    memory.asked = memory_of(cursor.until(" ,'\"\n", 16));
  }
}

}  // namespace

void detect_jobs(const Document& document, Facts& facts) {
  JobMemory memory;
  read_accounting(document, memory);
  read_request(document, memory);
  for (Finding& finding : facts.findings) {
    if (finding.family != Family::kSlurmOom) continue;
    if (!finding.amounts.limit) finding.amounts.limit = memory.asked;
    if (!finding.amounts.in_use) finding.amounts.in_use = memory.used;
  }
}

}  // namespace plimsoll::explain
