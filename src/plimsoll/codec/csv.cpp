#include "codec/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/format.h"

namespace plimsoll::codec {
namespace {

constexpr size_t kMaxRecordBytes = 1 << 20;
constexpr size_t kFirstBufferBytes = 64 << 10;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

CsvReader::CsvReader(std::shared_ptr<const ByteReader> file, const CsvDialect& dialect)
    : file_(std::move(file)),
      delimiter_(dialect.delimiter),
      offset_(dialect.start),
      buffer_(kFirstBufferBytes),
      next_line_(dialect.first_line) {}

bool CsvReader::refill() {
  if (offset_ >= file_->size()) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) {
    if (buffer_.size() >= kMaxRecordBytes) {
      throw Error(ErrorKind::kData,
                  fmt::format("{}: line {}: expected a record of at most 1 MiB, received a longer "
                              "one. Is a quote left open, or is this no CSV file?",
                              name(), next_line_));
    }
    buffer_.resize(2 * buffer_.size());
  }
  const int64_t room = static_cast<int64_t>(buffer_.size() - end_);
  const auto count = static_cast<size_t>(std::min(room, file_->size() - offset_));
  file_->read_at(offset_, std::as_writable_bytes(std::span(buffer_).subspan(end_, count)));
  offset_ += static_cast<int64_t>(count);
  end_ += count;
  return true;
}

// Sets record_end_ to the record's line end, or to the end of the file.
bool CsvReader::find_record() {
  bool quoted = false;
  for (size_t at = begin_;; ++at) {
    if (at == end_) {
      const size_t seen = at - begin_;
      if (!refill()) {
        if (quoted) {
          throw Error(
              ErrorKind::kData,
              fmt::format(
                  "{}: line {}: expected a quote that is closed, received the end of the file.",
                  name(), line_));
        }
        record_end_ = end_;
        return end_ > begin_;
      }
      at = begin_ + seen;
    }
    if (buffer_[at] == '"') quoted = !quoted;
    if (buffer_[at] != '\n') continue;
    ++next_line_;
    if (!quoted) {
      record_end_ = at;
      return true;
    }
  }
}

bool CsvReader::next() {
  while (true) {
    line_ = next_line_;
    if (!find_record()) return false;
    std::string_view record(buffer_.data() + begin_, record_end_ - begin_);
    begin_ = std::min(record_end_ + 1, end_);
    if (record.ends_with('\r')) record.remove_suffix(1);
    if (trimmed(record).empty()) continue;
    split(record);
    return true;
  }
}

// The content of a field that begins with a quote at `at`; moves `at` after it.
std::string_view CsvReader::take_quoted(std::string_view record, size_t& at, char*& out) {
  const char* const first = out;
  for (++at; at < record.size(); ++at) {
    if (record[at] == '"') {
      if (at + 1 >= record.size() || record[at + 1] != '"') break;
      ++at;
    }
    *out++ = record[at];
  }
  ++at;
  return {first, static_cast<size_t>(out - first)};
}

void CsvReader::add_field(std::string_view field, std::string_view written) {
  if (fields_.size() == kMaxFields) {
    throw Error(ErrorKind::kData,
                fmt::format("{}: line {}: expected at most {} columns, received more.", name(),
                            line_, kMaxFields));
  }
  fields_.push_back(field);
  written_.push_back(written);
}

void CsvReader::split(std::string_view record) {
  fields_.clear();
  written_.clear();
  if (unquoted_.size() < record.size()) unquoted_.resize(record.size());
  if (delimiter_ == ' ') return split_blanks(record);
  char* out = unquoted_.data();
  for (size_t at = 0; at <= record.size(); ++at) {
    size_t start = at;
    while (start < record.size() && is_blank(record[start]) && record[start] != delimiter_) ++start;
    if (start < record.size() && record[start] == '"') {
      const std::string_view field = take_quoted(record, start, out);
      add_field(field, field);
      at = std::min(record.find(delimiter_, start), record.size());
      continue;
    }
    const size_t begin = at;
    at = std::min(record.find(delimiter_, at), record.size());
    add_field(start < at ? trimmed(record.substr(start, at - start)) : "",
              record.substr(begin, at - begin));
  }
}

void CsvReader::split_blanks(std::string_view record) {
  char* out = unquoted_.data();
  for (size_t at = 0; at < record.size();) {
    if (is_blank(record[at])) {
      ++at;
    } else if (record[at] == '"') {
      const std::string_view field = take_quoted(record, at, out);
      add_field(field, field);
      at = std::min(at, record.size());
    } else {
      const size_t end = std::min(record.find_first_of(" \t", at), record.size());
      const std::string_view field = record.substr(at, end - at);
      add_field(field, field);
      at = end;
    }
  }
}

std::vector<std::string> split_csv_line(std::string_view line, char delimiter) {
  const auto parts = [delimiter](char c) {
    return delimiter == ' ' ? is_blank(c) : c == delimiter;
  };
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted || !parts(c)) {
      fields.back() += c;
    } else if (delimiter != ' ' || !fields.back().empty()) {
      fields.emplace_back();
    }
  }
  if (delimiter == ' ' && fields.back().empty()) fields.pop_back();
  for (std::string& field : fields) field = trimmed(field);
  return fields;
}

namespace {

// Lines from the start of a file, each cut to what is looked at of it, from one buffer.
class FirstLines {
 public:
  explicit FirstLines(const ByteReader& file) : file_(file), buffer_(kLookedAt, '\0') {}

  // Puts the line at the current place, without its end, into `line`; moves to the next one.
  void take(std::string& line) {
    line.clear();
    while (!at_end()) {
      if (held_.empty()) refill();
      const size_t end = held_.find('\n');
      const std::string_view part = held_.substr(0, end);
      if (line.size() < kLookedAt) line += part.substr(0, kLookedAt - line.size());
      skip(static_cast<int64_t>(end == std::string_view::npos ? part.size() : end + 1));
      if (end != std::string_view::npos) break;
    }
    if (line.ends_with('\r')) line.pop_back();
  }
  void skip(int64_t bytes) {
    offset_ += bytes;
    held_.remove_prefix(std::min(held_.size(), static_cast<size_t>(bytes)));
  }
  int64_t offset() const { return offset_; }
  bool at_end() const { return offset_ >= file_.size(); }

 private:
  static constexpr size_t kLookedAt = 16 << 10;

  void refill() {
    const auto count =
        static_cast<size_t>(std::min<int64_t>(file_.size() - offset_, std::ssize(buffer_)));
    file_.read_at(offset_, std::as_writable_bytes(std::span(buffer_).first(count)));
    held_ = std::string_view(buffer_).substr(0, count);
  }

  const ByteReader& file_;
  std::string buffer_;
  std::string_view held_;  // of the buffer: bytes from the current place on
  int64_t offset_ = 0;
};

// Numbers among what stands between blanks.
bool holds_numbers_between_blanks(std::string_view text) {
  size_t words = 0;
  size_t numbers = 0;
  double ignored = 0;
  for (const std::string& word : split_csv_line(text, ' ')) {
    ++words;
    if (parse_number(word, ignored)) ++numbers;
  }
  return numbers >= 2 && 2 * numbers >= words;
}

bool parts_by_blanks(const std::string& line) {
  if (line.find_first_of(",;|") != std::string::npos) return false;
  const std::vector<std::string> parts = split_csv_line(line, '\t');
  return std::ranges::any_of(parts, holds_numbers_between_blanks);
}

char guess_delimiter(const std::string& first, const std::string& second) {
  static constexpr std::string_view kCandidates = ",;\t|";
  std::array<int64_t, kCandidates.size()> counts{};
  bool quoted = false;
  for (const char c : first) {
    if (c == '"') quoted = !quoted;
    const size_t candidate = kCandidates.find(c);
    if (!quoted && candidate != std::string_view::npos) ++counts[candidate];
  }
  const auto most = std::ranges::max_element(counts);
  const char best = *most == 0 ? ',' : kCandidates[static_cast<size_t>(most - counts.begin())];
  if (*most > 0 && best != '\t') return best;
  return parts_by_blanks(first) || (*most == 0 && parts_by_blanks(second)) ? ' ' : best;
}

}  // namespace

CsvDialect find_dialect(const ByteReader& file) {
  FirstLines lines(file);
  std::array<char, kByteOrderMark.size()> mark{};
  if (file.size() >= std::ssize(mark)) {
    file.read_at(0, std::as_writable_bytes(std::span(mark)));
    if (std::string_view(mark.data(), mark.size()) == kByteOrderMark) lines.skip(std::ssize(mark));
  }
  CsvDialect dialect;
  char named = 0;
  std::string line;
  for (dialect.start = lines.offset(); !lines.at_end();
       dialect.start = lines.offset(), ++dialect.first_line) {
    lines.take(line);
    const std::string_view text = trimmed(line);
    if (dialect.first_line == 1 && line.size() == 5 && line.starts_with("sep=")) {
      named = line.back();
    } else if (text.starts_with('#')) {
      ++dialect.comments;
      dialect.last_comment = trimmed(text.substr(1));
    } else if (!text.empty()) {
      break;
    }
    line.clear();
  }
  std::string second;
  lines.take(second);
  dialect.delimiter = named != 0 ? named : guess_delimiter(line, second);
  return dialect;
}

bool parse_number(std::string_view text, double& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return false;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() && std::isfinite(value);
}

}  // namespace plimsoll::codec
