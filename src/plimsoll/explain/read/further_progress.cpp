#include "explain/read/further_progress.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "explain/read/document.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr int kReach = 400;  // lines after a refusal
constexpr int kEnough = 4;   // lines of one form
constexpr size_t kLongestLine = 600;
constexpr size_t kMostFigures = 24;
constexpr size_t kMostRuns = 6;
constexpr size_t kMostFound = 256;
// Seconds since 1970 advance whatever the program does.
constexpr double kLargestCount = 1e9;

// What a program does while it ends, or before it tries again.
constexpr std::string_view kAftermath[] = {
    "retry",    "retries", "attempt",  "restart",  "wait", "upload",  "download", "sync",
    "terminat", "closing", "shutdown", "shutting", "kill", "sigterm", "cleanup"};

// What a number tells apart rather than counts.
constexpr std::string_view kThings[] = {
    "gpu",    "cpu",    "core",   "node",  "rank",    "device",    "process", "proc",  "pid",
    "worker", "thread", "stream", "shard", "replica", "socket",    "numa",    "frame", "layer",
    "block",  "buffer", "tensor", "param", "chunk",   "partition", "port",    "line",  "slot"};

// The head of what ps, top and nvidia-smi print.
bool heads_a_list_of_processes(std::string_view line) {
  constexpr size_t npos = std::string_view::npos;
  if (find_ignoring_case(line, "pid") == npos) return false;
  static constexpr std::string_view kColumns[] = {"%cpu", "command", "process name", "user "};
  for (std::string_view column : kColumns) {
    if (find_ignoring_case(line, column) != npos) return true;
  }
  return false;
}

bool is_aftermath(const LineForm& form) {
  return std::any_of(std::begin(kAftermath), std::end(kAftermath), [&form](std::string_view word) {
    return form.words.find(word) != std::string::npos;
  });
}

// Reads the figures of a line from left to right.
class FigureReader {
 public:
  explicit FigureReader(std::string_view line) : line_(line) {}

  LineForm read() {
    form_.words.reserve(line_.size());
    form_.figures.reserve(8);
    while (at_ < line_.size()) {
      if (is_alpha(line_[at_]) || line_[at_] == '_') {
        word();
      } else if (is_digit(line_[at_])) {
        number();
      } else {
        ++at_;
      }
    }
    return std::move(form_);
  }

 private:
  // Digits within a word ("conv2d", "0x7f…") belong to it; which they are does not matter.
  void word() {
    for (; at_ < line_.size() && is_word(line_[at_]); ++at_) {
      if (!is_digit(line_[at_])) form_.words += to_lower(line_[at_]);
    }
    form_.words += ' ';
  }

  void number();
  bool is_clock(size_t end) const;
  bool is_size(size_t end) const;
  bool is_duration(size_t end) const;
  bool is_index(size_t end) const;

  std::string_view line_;
  size_t at_ = 0;
  LineForm form_;
};

// "10:11:12.131", "0:00:31", "2024-05-01": `end` stands after the first number of it.
bool FigureReader::is_clock(size_t end) const {
  if (end + 1 >= line_.size() || !is_digit(line_[end + 1])) return false;
  if (line_[end] == ':') return end + 2 < line_.size() && is_digit(line_[end + 2]);
  return line_[end] == '-' && at_ + 4 == end;
}

bool FigureReader::is_size(size_t end) const {
  if (end < line_.size() && line_[end] == ' ') ++end;
  if (end == line_.size() || !is_alpha(line_[end])) return false;
  size_t after = end;
  if (!read_unit(line_, after)) return false;
  // "10k of 800k images" counts; "12.1G" is memory.
  return after - end > 1 || to_lower(line_[end]) != 'k';
}

bool FigureReader::is_duration(size_t end) const {
  if (end < line_.size() && line_[end] == ' ') ++end;
  if (end == line_.size() || !is_alpha(line_[end])) return false;
  size_t after = end;
  while (after < line_.size() && (is_alpha(line_[after]) || line_[after] == '/')) ++after;
  const std::string_view unit = line_.substr(end, after - end);
  static constexpr std::string_view kNames[] = {"s",      "ms",      "us",  "sec", "secs",
                                                "second", "seconds", "min", "h"};
  for (std::string_view name : kNames) {
    if (equals_ignoring_case(unit, name)) return true;
  }
  return unit.starts_with("s/") || unit.starts_with("ms/") || unit.ends_with("/s");
}

// After the name of a thing, or within a dotted name.
bool FigureReader::is_index(size_t end) const {
  if (at_ > 0 && line_[at_ - 1] == '.') return true;
  if (end + 1 < line_.size() && line_[end] == '.' && is_alpha(line_[end + 1])) return true;
  size_t begin = at_;
  while (begin > 0 && std::string_view(" #:=[(").find(line_[begin - 1]) != std::string_view::npos) {
    --begin;
  }
  size_t name = begin;
  while (name > 0 && is_alpha(line_[name - 1])) --name;
  const std::string_view word = line_.substr(name, begin - name);
  return std::any_of(std::begin(kThings), std::end(kThings),
                     [word](std::string_view thing) { return equals_ignoring_case(word, thing); });
}

void FigureReader::number() {
  // The rest of "0x7f2a" and of "2d" is a word's.
  Figure figure;
  const char* const begin = line_.data() + at_;
  const auto [stop, error] = std::from_chars(begin, line_.data() + line_.size(), figure.value);
  size_t end = at_ + static_cast<size_t>(stop - begin);
  if (error != std::errc() || end == at_) {
    ++at_;
    return;
  }
  if (is_clock(end)) {
    while (end < line_.size() && (is_digit(line_[end]) || line_[end] == ':' || line_[end] == '.' ||
                                  line_[end] == ',' || line_[end] == '-')) {
      ++end;
    }
    at_ = end;
    return;
  }
  const std::string_view text = line_.substr(at_, end - at_);
  const bool hexadecimal = end < line_.size() && to_lower(line_[end]) == 'x';
  figure.has_point = text.find_first_of(".e") != std::string_view::npos;
  figure.is_duration = is_duration(end);
  figure.is_index = is_index(end);
  const bool counts = !hexadecimal && !is_size(end) && figure.value < kLargestCount;
  if (counts && form_.figures.size() < kMostFigures) form_.figures.push_back(figure);
  at_ = end;
}

}  // namespace

LineForm form_of(std::string_view line) { return FigureReader(line).read(); }

void FurtherProgressReader::refuse(int64_t line) {
  after_ = line;
  lines_left_ = kReach;
  runs_.clear();
}

void FurtherProgressReader::extend(Run& run, LineForm form) {
  const size_t count = form.figures.size();
  if (run.lines == 0) {
    run.rises.assign(count, true);
    run.moves.assign(count, false);
  }
  bool rises = run.lines == 0;
  for (size_t i = 0; i < count && run.lines > 0; ++i) {
    const double before = run.last.figures[i].value;
    const double now = form.figures[i].value;
    if (now <= before) run.rises[i] = false;
    if (now != before) run.moves[i] = true;
    rises = rises || run.rises[i];
  }
  run.last = std::move(form);
  ++run.lines;
  if (rises) return;
  // Nothing advances through all of them: a new beginning.
  run.rises.assign(count, true);
  run.moves.assign(count, false);
  run.lines = 1;
}

// A count that rises in every line, and beside it a measurement that moves.
bool FurtherProgressReader::advances(const Run& run) {
  if (run.lines < kEnough) return false;
  const size_t count = run.rises.size();
  // One line for each of several things is a list.
  for (size_t i = 0; i < count; ++i) {
    if (run.rises[i] && run.last.figures[i].is_index) return false;
  }
  for (size_t i = 0; i < count; ++i) {
    if (!run.rises[i] || run.last.figures[i].is_duration) continue;
    for (size_t j = 0; j < count; ++j) {
      const Figure& figure = run.last.figures[j];
      if (j == i || !run.moves[j] || !figure.has_point) continue;
      // Times that only grow are pauses between attempts.
      if (!figure.is_duration || !run.rises[j]) return true;
    }
  }
  return false;
}

void FurtherProgressReader::read(int64_t line, std::string_view text) {
  if (lines_left_ == 0) return;
  --lines_left_;
  if (text.size() > kLongestLine) return;
  const std::string clean = clean_line(text);
  LineForm form = form_of(clean);
  if (form.words.find("pid") != std::string::npos && heads_a_list_of_processes(clean)) {
    lines_left_ = 0;
    return;
  }
  if (form.figures.size() < 2) return;
  const auto same = std::find_if(runs_.begin(), runs_.end(), [&form](const Run& run) {
    return run.last.words == form.words && run.last.figures.size() == form.figures.size();
  });
  if (same != runs_.end()) {
    std::rotate(same, same + 1, runs_.end());
  } else {
    if (runs_.size() == kMostRuns) runs_.erase(runs_.begin());
    runs_.emplace_back();
  }
  extend(runs_.back(), std::move(form));
  if (!advances(runs_.back()) || is_aftermath(runs_.back().last)) return;
  // Beyond the first half only the last ones stay.
  if (found_.size() < kMostFound) {
    found_.push_back({after_, line, clean});
  } else {
    found_[kMostFound / 2 + oldest_] = {after_, line, clean};
    oldest_ = (oldest_ + 1) % (kMostFound / 2);
  }
  lines_left_ = 0;
}

std::vector<FurtherProgress> FurtherProgressReader::found() const {
  std::vector<FurtherProgress> found = found_;
  if (found.size() == kMostFound) {
    const auto half = found.begin() + kMostFound / 2;
    std::rotate(half, half + static_cast<std::ptrdiff_t>(oldest_), found.end());
  }
  return found;
}

}  // namespace plimsoll::explain
