#include "explain/read/counters.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string_view::npos;

// Sums of hostile figures stay where nothing overflows.
void add_bounded(int64_t& sum, int64_t value) { sum = std::min(sum + value, kLargestNumber); }

// The integer after `label`, or -1.
int64_t integer_after(std::string_view text, std::string_view label, size_t from) {
  const size_t at = text.find(label, from);
  if (at == npos) return -1;
  size_t number_at = at + label.size();
  return read_integer(text, number_at).value_or(-1);
}

// The size printed before `label`: "2.68GiB allocated for chunks".
int64_t size_before(std::string_view text, std::string_view label) {
  const size_t at = text.find(label);
  if (at == npos) return -1;
  size_t start = at;
  while (start > 0 && text[start - 1] != ' ') --start;
  const std::optional<double> value = read_bytes(text, start);
  return value ? round_to_bytes(*value) : -1;
}

double median(std::vector<double> values) {
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle),
                   values.end());
  return values[middle];
}

// The figure that follows a label, a few signs away.
std::optional<double> figure_after(std::string_view text, std::string_view label, int reach) {
  size_t at = find_ignoring_case(text, label);
  if (at == npos) return std::nullopt;
  at += label.size();
  for (int gap = 0; at < text.size() && !is_digit(text[at]) && gap < reach; ++gap) ++at;
  return read_bytes(text, at);
}

std::optional<double> process_figure(std::string_view text) {
  for (std::string_view label : {"rss", "memory usage", "memory used", "mem used", "used memory"}) {
    if (const std::optional<double> bytes = figure_after(text, label, 4)) return bytes;
  }
  return std::nullopt;
}

// "step 10: 1121 MiB allocated", "allocated: 1.2 GiB", "GPU memory 3.1 GB": what is in use now. A
// peak never falls, and what a refusal or a dump says is no figure of the program's progress.
std::optional<double> device_figure(std::string_view text) {
  for (std::string_view word : {"peak", "max", "total", "free", "tried to", "already allocated",
                                "allocated by", "allocated for", "allocated memory"}) {
    if (find_ignoring_case(text, word) != npos) return std::nullopt;
  }
  constexpr std::string_view kAllocated = " allocated";
  if (const size_t end = find_ignoring_case(text, kAllocated); end != npos) {
    for (size_t begin = end; begin > 0 && end - begin < 24; --begin) {
      size_t at = begin - 1;
      const bool starts =
          is_digit(text[at]) && (at == 0 || !(is_word(text[at - 1]) || text[at - 1] == '.'));
      if (!starts) continue;
      const std::optional<double> bytes = read_bytes(text, at);
      if (bytes && at == end) return bytes;
    }
  }
  for (std::string_view label : {"memory_allocated", "allocated", "gpu memory", "gpu_memory",
                                 "gpu mem", "gpu_mem", "cuda memory", "vram"}) {
    if (const std::optional<double> bytes = figure_after(text, label, 6)) return bytes;
  }
  return std::nullopt;
}

constexpr std::string_view kOfSize = " of size ";

// Dumps have millions of lines; no search that halts at every blank.
size_t find_of_size(std::string_view text) {
  static const std::boyer_moore_horspool_searcher searcher(kOfSize.begin(), kOfSize.end());
  const auto found = std::search(text.begin(), text.end(), searcher);
  return found == text.end() ? npos : static_cast<size_t>(found - text.begin());
}

// Whether the line may have been cut within what is counted: in a figure, or before it.
bool may_be_cut(std::string_view text) {
  constexpr size_t kWrapColumn = 70;
  constexpr size_t kLongest = 1000;
  if (text.size() < kWrapColumn || text.size() > kLongest) return false;
  const size_t of = find_of_size(text);
  if (of == npos && find_ignoring_case(text, "total chunks:") != npos) {
    return text.find("in use in bin") == npos;
  }
  return of == npos || is_digit(text.back()) || of + kOfSize.size() >= text.size();
}

}  // namespace

void ChunkCounter::add_free(int64_t line, int64_t size) {
  add_bounded(counts_.free_bytes, size);
  ++counts_.free_chunks;
  if (size > counts_.largest_free) {
    counts_.largest_free = size;
    counts_.largest_free_line = line;
  }
}

void ChunkCounter::add_bin(int64_t line, std::string_view text) {
  // The bins open a dump; chunks or summaries seen before belong to an older one.
  if (counts_.summary_chunks + counts_.used_chunks + counts_.free_chunks > 0) counts_ = {};
  if (counts_.first_line == 0) counts_.first_line = line;
  const int64_t allocated = size_before(text, " allocated for chunks");
  const int64_t in_use = size_before(text, " in use in bin");
  if (allocated >= 0 && in_use >= 0) {
    ++counts_.bin_lines;
    add_bounded(counts_.bins_allocated, allocated);
    add_bounded(counts_.bins_in_use, in_use);
  }
}

// "K Chunks of size N": `at` after K, `size_at` at N.
void ChunkCounter::add_summary(int64_t line, std::string_view text, size_t at, size_t size_at) {
  size_t start = at;
  while (start > 0 && is_digit(text[start - 1])) --start;
  const std::optional<int64_t> chunks = read_integer(text, start);
  const int64_t size = read_integer(text, size_at).value_or(-1);
  if (!chunks || size <= 0 || *chunks > kLargestNumber / size) return;
  const int64_t total = *chunks * size;
  add_bounded(counts_.summary_bytes, total);
  add_bounded(counts_.summary_chunks, *chunks);
  if (total > counts_.holder_bytes) {
    counts_.holder_bytes = total;
    counts_.holder_size = size;
    counts_.holder_chunks = *chunks;
    counts_.holder_line = line;
  }
}

void ChunkCounter::add(int64_t line, std::string_view text) {
  count_waiting();
  // One record of a structured logger may hold the whole dump, its line ends escaped.
  for (size_t end = text.find("\\n"); end != npos; end = text.find("\\n")) {
    count(line, text.substr(0, end));
    text.remove_prefix(end + 2);
  }
  if (!may_be_cut(text)) return count(line, text);
  waiting_ = text;
  waiting_line_ = line;
}

void ChunkCounter::add_after(std::string_view text, bool is_new) {
  if (!is_new) waiting_ += text.substr(0, 200);
  count_waiting();
}

void ChunkCounter::count_waiting() {
  if (waiting_.empty()) return;
  count(waiting_line_, waiting_);
  waiting_.clear();
}

// The two usual kinds of lines, as TensorFlow prints them: "K Chunks of size N totalling S" and
// "InUse at 7f… of size N next M".
bool ChunkCounter::count_sized(int64_t line, std::string_view text) {
  const size_t of = find_of_size(text);
  if (of == npos) return false;
  const size_t size_at = of + kOfSize.size();
  const std::string_view before = text.substr(0, of);
  if (before.ends_with(" Chunks")) {
    add_summary(line, text, of - std::string_view(" Chunks").size(), size_at);
    return true;
  }
  constexpr size_t kLongestAddress = 48;
  const size_t at = before.rfind(" at ");
  if (at == npos || of - at > kLongestAddress) return false;
  std::string_view state = before.substr(0, at);
  if (state.ends_with(' ')) state.remove_suffix(1);
  const bool free = state.ends_with("Free");
  if (!free && !state.ends_with("InUse") && !state.ends_with("Chunk")) return false;
  size_t end = size_at;
  add_chunk(line, free, read_integer(text, end).value_or(-1));
  return true;
}

void ChunkCounter::add_chunk(int64_t line, bool free, int64_t size) {
  if (size < 0 || size > (int64_t{1} << 50)) return;
  if (free) {
    add_free(line, size);
  } else {
    add_bounded(counts_.used_bytes, size);
    ++counts_.used_chunks;
  }
}

void ChunkCounter::note_line(int64_t line) {
  counts_.last_line = line;
  if (counts_.first_line == 0) counts_.first_line = line;
}

void ChunkCounter::count(int64_t line, std::string_view printed) {
  if (count_sized(line, printed)) return note_line(line);
  std::string text(printed);
  std::transform(text.begin(), text.end(), text.begin(), to_lower);
  if (text.find("total chunks:") != npos) return add_bin(line, text);
  note_line(line);
  if (const size_t at = text.find(" chunks of size "); at != npos) {
    return add_summary(line, text, at, at + std::string_view(" chunks of size ").size());
  }
  if (const size_t at = text.find("in_use: 0"); at != npos) {
    size_t size_at = text.find("size: ");
    if (size_at == npos || size_at > at) return;
    size_at += 6;
    if (const std::optional<double> size = read_bytes(text, size_at)) {
      add_free(line, round_to_bytes(*size));
    }
    return;
  }
  const size_t at = text.find(" at ");
  if (at == npos) return;
  add_chunk(line, text.find("free") < at, integer_after(text, kOfSize, at));
}

void MemorySeries::add(int64_t line, std::string_view text) {
  if (text.size() > 400) return;
  const std::optional<double> bytes =
      kind_ == Kind::kDevice ? device_figure(text) : process_figure(text);
  if (!bytes || seen_++ % stride_ != 0) return;
  points_.push_back({line, *bytes});
  if (points_.size() < kSeriesPoints) return;
  for (size_t i = 0; 2 * i < points_.size(); ++i) points_[i] = points_[2 * i];
  points_.resize((points_.size() + 1) / 2);
  stride_ *= 2;
}

SeriesTrend MemorySeries::trend() const {
  SeriesTrend trend;
  const size_t count = points_.size();
  trend.points = static_cast<int64_t>(count);
  if (count < 5) return trend;
  trend.first_line = points_.front().line;
  trend.last_line = points_.back().line;
  trend.first_bytes = points_.front().bytes;
  trend.last_bytes = points_.back().bytes;

  // Mann–Kendall: rising pairs minus falling pairs; and the median of all pairwise slopes.
  int64_t balance = 0;
  std::vector<double> slopes;
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = i + 1; j < count; ++j) {
      const double rise = points_[j].bytes - points_[i].bytes;
      balance += rise > 0 ? 1 : rise < 0 ? -1 : 0;
      slopes.push_back(rise / static_cast<double>((j - i) * static_cast<size_t>(stride_)));
    }
  }
  trend.slope_bytes = median(std::move(slopes));
  const double n = static_cast<double>(count);
  const double deviation = std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  const bool significant = (static_cast<double>(balance) - 1) / deviation > 2.0;
  // The last third still rises, and by a share of the whole rise that a plateau would not have.
  const size_t third = std::max<size_t>(count / 3, 2);
  const double whole = trend.last_bytes - trend.first_bytes;
  const double late = points_[count - 1].bytes - points_[count - third].bytes;
  trend.grows = significant && whole > 0.01 * trend.first_bytes && late > 0.1 * whole;
  return trend;
}

}  // namespace plimsoll::explain
