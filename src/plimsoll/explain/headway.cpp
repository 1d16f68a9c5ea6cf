#include "explain/headway.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "explain/document.h"
#include "explain/number.h"

namespace plimsoll::explain {
namespace {

constexpr int kReach = 400;  // lines behind a refusal
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

bool is_aftermath(std::string_view line) {
  return std::any_of(std::begin(kAftermath), std::end(kAftermath), [line](std::string_view word) {
    return find_ignoring_case(line, word) != std::string_view::npos;
  });
}

// Reads the figures of a line from left to right.
class FigureReader {
 public:
  explicit FigureReader(std::string_view line) : line_(line) {}

  LineForm read() {
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

  std::string_view line_;
  size_t at_ = 0;
  LineForm form_;
};

// "10:11:12.131", "0:00:31", "2024-05-01": `end` stands behind the first number of it.
bool FigureReader::is_clock(size_t end) const {
  if (end + 1 >= line_.size() || !is_digit(line_[end + 1])) return false;
  if (line_[end] == ':') return end + 2 < line_.size() && is_digit(line_[end + 2]);
  return line_[end] == '-' && at_ + 4 == end;
}

bool FigureReader::is_size(size_t end) const {
  if (end < line_.size() && line_[end] == ' ') ++end;
  size_t behind = end;
  if (!read_unit(line_, behind)) return false;
  // "10k of 800k images" counts; "12.1G" is memory.
  return behind - end > 1 || to_lower(line_[end]) != 'k';
}

bool FigureReader::is_duration(size_t end) const {
  if (end < line_.size() && line_[end] == ' ') ++end;
  size_t behind = end;
  while (behind < line_.size() && (is_alpha(line_[behind]) || line_[behind] == '/')) ++behind;
  const std::string_view unit = line_.substr(end, behind - end);
  for (std::string_view name : {"s", "ms", "us", "sec", "secs", "second", "seconds", "min", "h"}) {
    if (equals_ignoring_case(unit, name)) return true;
  }
  return unit.starts_with("s/") || unit.starts_with("ms/") || unit.ends_with("/s");
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
  const bool counts = !hexadecimal && !is_size(end) && figure.value < kLargestCount;
  if (counts && form_.figures.size() < kMostFigures) form_.figures.push_back(figure);
  at_ = end;
}

}  // namespace

LineForm form_of(std::string_view line) { return FigureReader(line).read(); }

void HeadwayReader::refuse(int64_t line) {
  behind_ = line;
  lines_left_ = kReach;
  runs_.clear();
}

void HeadwayReader::extend(Run& run, LineForm form) {
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
bool HeadwayReader::advances(const Run& run) {
  if (run.lines < kEnough) return false;
  const size_t count = run.rises.size();
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

void HeadwayReader::read(int64_t line, std::string_view text) {
  if (lines_left_ == 0) return;
  --lines_left_;
  if (text.size() > kLongestLine) return;
  const std::string clean = clean_line(text);
  LineForm form = form_of(clean);
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
  if (!advances(runs_.back()) || is_aftermath(clean)) return;
  // Beyond the first half only the last ones stay.
  if (found_.size() == kMostFound) found_.erase(found_.begin() + kMostFound / 2);
  found_.push_back({behind_, line, clean});
  lines_left_ = 0;
}

}  // namespace plimsoll::explain
