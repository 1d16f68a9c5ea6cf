#include "explain/read/document.h"

#include <algorithm>

#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t kWrapColumn = 50;  // shorter lines are not taken for wrapped ones
// Terminals and web pages; one line of such a width may be a wrapped one, two of any width.
constexpr size_t kUsualWidths[] = {80, 100, 120, 132};
constexpr size_t kQuoteLength = 220;

// What records of the known writers begin with.
constexpr std::string_view kRecordStarts[] = {
    "[",
    "2000-",
    "W ",
    "I ",
    "E ",
    "F ",
    "Traceback",
    "File \"",
    "Hint",
    "Limit:",
    "InUse:",
    "MaxInUse:",
    "NumAllo",
    "MaxAllo",
    "Reserved",
    "PeakRes",
    "Largest",
    "(0)",
    "(1)",
    "Killed",
    "terminate",
    "During handling",
    "The above exception",
    "raise ",
    "return ",
    "Epoch",
    "Stats",
    "INFO",
    "WARN",
    "ERROR",
    "DEBUG",
    "CRITICAL",
    "FATAL",
    "#",
    "If the cause",
    "Current allocation",
    "Additional",
    "Exception",
    "Process ",
};

bool starts_like_date(std::string_view line) {
  // 2023-05-01 or 2023/05/01
  if (line.size() < 10) return false;
  for (size_t i : {0u, 1u, 2u, 3u, 5u, 6u, 8u, 9u}) {
    if (!is_digit(line[i])) return false;
  }
  return (line[4] == '-' && line[7] == '-') || (line[4] == '/' && line[7] == '/');
}

bool starts_like_glog(std::string_view line) {  // E1103 18:23:55
  if (line.size() < 8 || std::string_view("IWEF").find(line[0]) == std::string_view::npos) {
    return false;
  }
  return is_digit(line[1]) && is_digit(line[2]) && is_digit(line[3]) && is_digit(line[4]) &&
         line[5] == ' ';
}

// "RuntimeError:", "numpy.core._exceptions._ArrayMemoryError:", a bare "MemoryError"
bool starts_like_exception(std::string_view line) {
  size_t end = 0;
  while (end < line.size() && (is_word(line[end]) || line[end] == '.')) ++end;
  return end > 5 && (end == line.size() || line[end] == ':' || line[end] == ' ') &&
         equals_ignoring_case(line.substr(end - 5, 5), "error");
}

size_t columns(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

// The width at which lines were cut, if they were: the largest, where several lines have it. 0:
// none.
size_t wrap_width(std::span<const KeptSegment> segments) {
  size_t width = 0;
  int lines = 0;
  for (const KeptSegment& segment : segments) {
    if (!segment.ends_line || segment.segment > 0) return 0;
    const size_t end = segment.text.rfind('\r');
    const size_t own = columns(
        plain_text(std::string_view(segment.text).substr(end == std::string::npos ? 0 : end + 1)));
    if (own > width) {
      width = own;
      lines = 0;
    }
    lines += own == width ? 1 : 0;
  }
  const bool usual =
      std::find(std::begin(kUsualWidths), std::end(kUsualWidths), width) != std::end(kUsualWidths);
  return width >= kWrapColumn && (usual || lines > 1) ? width : 0;
}

}  // namespace

bool starts_record_surely(std::string_view line) {
  const size_t blanks = std::min(line.find_first_not_of(' '), line.size());
  line.remove_prefix(blanks);
  if (line.empty()) return true;
  for (std::string_view start : {"Traceback", "File \"", "Killed", "Limit:", "InUse:", "MaxInUse:",
                                 "NumAllocs:", "MaxAllocSize:", "Epoch", "[[", "[rank"}) {
    if (line.substr(0, start.size()) == start) return true;
  }
  return starts_like_date(line) || starts_like_glog(line) || starts_like_exception(line);
}

bool starts_record(std::string_view line) {
  size_t blanks = 0;
  while (blanks < line.size() && line[blanks] == ' ') ++blanks;
  if (blanks >= 2) return true;  // an indented line goes on from nothing
  line.remove_prefix(blanks);
  if (line.empty()) return true;
  for (std::string_view start : kRecordStarts) {
    if (line.substr(0, start.size()) == start) return true;
  }
  return starts_like_date(line) || starts_like_glog(line) || starts_like_exception(line);
}

Document::Document(std::span<const KeptSegment> segments, bool is_cut)
    : is_cut_(is_cut), wrap_width_(wrap_width(segments)) {
  for (size_t i = 0; i < segments.size(); ++i) {
    const KeptSegment& segment = segments[i];
    bool continues = i > 0 && segments[i - 1].line == segment.line &&
                     segments[i - 1].segment + 1 == segment.segment;
    std::string_view rest = segment.text;
    // A carriage return starts the line again: a progress bar, and what was printed after it.
    for (;;) {
      const size_t end = rest.find('\r');
      const std::string_view part = rest.substr(0, end);
      if (!part.empty() || (end == std::string_view::npos && rest.size() == segment.text.size())) {
        append(segment, part, continues);
        continues = false;
      }
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 1);
    }
  }
  close_envelope();
}

// Whether an unfinished record goes on in this line.
bool Document::goes_on(const KeptSegment& segment, std::string_view plain, bool continues) const {
  if (continues) return true;
  const bool adjacent = segment.line == envelope_last_ || segment.line == envelope_last_ + 1;
  return adjacent && envelope_width_ >= kWrapColumn && !Envelope::opens(plain);
}

void Document::append(const KeptSegment& segment, std::string_view part, bool continues) {
  const std::string plain = plain_text(part);
  if (envelope_ && goes_on(segment, plain, continues)) {
    envelope_->add(plain);
  } else {
    close_envelope();
    Source source{segment.line, columns(plain), false, continues, false, false};
    Prefix prefix;
    const std::string_view line =
        continues ? std::string_view(plain) : without_marks(plain, prefix);
    source.starts_record = prefix.starts_record;
    source.is_quiet = prefix.is_quiet;
    source.has_prefix = line.size() < plain.size();
    if (continues || !Envelope::opens(line)) return append_line(source, without_long_runs(line));
    envelope_.emplace(line);
    envelope_line_ = segment.line;
  }
  envelope_last_ = segment.line;
  envelope_width_ = columns(plain);
  if (envelope_->is_complete()) close_envelope();
}

// Appends what the record holds; a record in a record is opened too.
void Document::close_envelope() {
  if (!envelope_) return;
  constexpr size_t kMostLines = 4096;
  const bool quiet = envelope_->is_quiet();
  std::vector<std::string> lines = envelope_->lines();
  envelope_.reset();
  for (size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) {
    const std::string plain = plain_text(lines[i]);
    Prefix prefix;
    const std::string_view line = without_marks(plain, prefix);
    const Source source{envelope_line_, columns(plain),       false,
                        false,          prefix.starts_record, quiet || prefix.is_quiet};
    std::vector<std::string> inner;
    if (Envelope::opens(line)) {
      inner = Envelope(line).lines();
    } else {
      inner.emplace_back(line);
    }
    for (const std::string& text : inner) append_line(source, clean_line(text));
  }
}

void Document::append_line(const Source& source, std::string_view line) {
  if (!starts_.empty()) {
    const bool adjacent = source.number <= numbers_.back() + 1;
    const size_t width = source.has_prefix ? last_own_width_ : last_width_;
    const bool full = wrap_width_ != 0 && width == wrap_width_;
    const bool wrapped = adjacent && source.number != numbers_.back() && width >= kWrapColumn &&
                         !source.starts_record &&
                         !(full ? starts_record_surely(line) : starts_record(line));
    if (source.continues || wrapped) {
      text_ += kSoftBreak;
    } else {
      text_ += adjacent ? "\n" : "\n\n";
    }
  }
  starts_.push_back(text_.size());
  numbers_.push_back(source.number);
  quiet_.push_back(source.is_quiet);
  last_width_ = source.width;
  last_own_width_ = columns(line);
  text_ += line;
}

size_t Document::line_index(size_t offset) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
  return after == starts_.begin() ? 0 : static_cast<size_t>(after - starts_.begin()) - 1;
}

int64_t Document::number_at(size_t offset) const { return number(line_index(offset)); }

std::string_view Document::line(size_t index) const {
  const size_t begin = start(index);
  size_t end = index + 1 < starts_.size() ? starts_[index + 1] : text_.size();
  while (end > begin && (text_[end - 1] == '\n' || text_[end - 1] == kSoftBreak)) --end;
  return std::string_view(text_).substr(begin, end - begin);
}

namespace {

// The first beginning of a word from `from` on and not after `most`, where that is near.
size_t word_start(std::string_view line, size_t from, size_t most) {
  if (from == 0 || line[from - 1] == ' ') return from;
  const size_t blank = line.find_first_of(std::string_view(" \x01", 2), from);
  return blank == std::string_view::npos || blank + 1 > most ? from : blank + 1;
}

}  // namespace

std::string Document::quote(size_t offset) const {
  if (starts_.empty()) return "";
  const size_t index = line_index(offset);
  std::string_view whole = line(index);
  size_t from = 0;
  if (whole.size() > kQuoteLength) {
    const size_t inside = std::min(offset - starts_[index], whole.size());
    from = inside > 60 ? inside - 60 : 0;
    from = std::min(from, whole.size() - kQuoteLength);
    from = word_start(whole, from, inside);
  } else {
    from = std::min(whole.find_first_not_of(' '), whole.size());
  }
  std::string result(whole.substr(from, kQuoteLength));
  // Never half a character at either end.
  size_t lead = 0;
  while (lead < result.size() && (static_cast<uint8_t>(result[lead]) & 0xc0) == 0x80) ++lead;
  result.erase(0, lead);
  size_t tail = result.size();
  while (tail > 0 && (static_cast<uint8_t>(result[tail - 1]) & 0xc0) == 0x80) --tail;
  if (tail > 0 && static_cast<uint8_t>(result[tail - 1]) >= 0xc0) {
    const auto first = static_cast<uint8_t>(result[tail - 1]);
    const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (result.size() - (tail - 1) < length) result.erase(tail - 1);
  }
  std::replace(result.begin(), result.end(), kSoftBreak, ' ');
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

size_t Document::match(std::string_view phrase, size_t at) const {
  const std::string& text = text_;
  for (char c : phrase) {
    if (c == ' ') {
      const size_t begin = at;
      while (at < text.size() && (text[at] == ' ' || text[at] == kSoftBreak)) ++at;
      if (at == begin) return std::string::npos;
      continue;
    }
    while (at < text.size() && text[at] == kSoftBreak) ++at;
    if (at >= text.size() || to_lower(text[at]) != c) return std::string::npos;
    ++at;
  }
  return at;
}

size_t Document::find(std::string_view phrase, size_t from, size_t to) const {
  to = std::min(to, text_.size());
  const char first = phrase.front();
  // A blank may be a soft break.
  const char upper = first == ' '                   ? kSoftBreak
                     : first >= 'a' && first <= 'z' ? static_cast<char>(first - 'a' + 'A')
                                                    : first;
  for (size_t at = from; at < to; ++at) {
    if ((text_[at] == first || text_[at] == upper) && match(phrase, at) != std::string::npos) {
      return at;
    }
  }
  return std::string::npos;
}

size_t Document::find_back(std::string_view phrase, size_t before, size_t reach) const {
  const size_t stop = before > reach ? before - reach : 0;
  for (size_t at = std::min(before, text_.size()); at-- > stop;) {
    const bool begins =
        to_lower(text_[at]) == phrase.front() || (phrase.front() == ' ' && text_[at] == kSoftBreak);
    if (begins && match(phrase, at) != std::string::npos) return at;
  }
  return std::string::npos;
}

size_t Document::record_start(size_t at) const {
  if (at == 0 || starts_.empty()) return 0;
  const size_t end = text_.rfind('\n', at - 1);
  return end == std::string::npos ? 0 : end + 1;
}

size_t Document::record_end(size_t at) const {
  const size_t end = text_.find('\n', at);
  return end == std::string::npos ? text_.size() : end;
}

bool Document::is_after_words(size_t at) const {
  if (starts_.empty()) return false;
  const size_t begin = start(line_index(at));
  std::string_view before = std::string_view(text_).substr(begin, at - begin);
  while (!before.empty() && (before.back() == ' ' || before.back() == kSoftBreak)) {
    before.remove_suffix(1);
  }
  if (before.empty() || !is_alpha(before.back())) return false;
  return to_lower(before.back()) == before.back();
}

bool Document::is_quoted(size_t at) const {
  const size_t begin = record_start(at);
  size_t open = std::string::npos;
  for (size_t i = begin; i < at; ++i) {
    // `So' did people once.
    const bool closes = text_[i] == '\'' && open != std::string::npos && text_[open] == '`';
    if (text_[i] != '"' && text_[i] != '`' && !closes) continue;
    open = open == std::string::npos ? i : std::string::npos;
  }
  if (open == std::string::npos || open == begin || text_[open - 1] != ' ') return false;
  // "failed assertion `Failed to allocate …'" is what the C library says of the program itself.
  if (find_back("assertion ", open, 10) != std::string::npos) return false;
  return is_after_words(open);
}

}  // namespace plimsoll::explain
