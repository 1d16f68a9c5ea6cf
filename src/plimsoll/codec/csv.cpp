#include "codec/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

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

CsvReader::CsvReader(std::shared_ptr<const ByteReader> file, char delimiter)
    : file_(std::move(file)), delimiter_(delimiter), buffer_(kFirstBufferBytes) {
  std::array<char, kByteOrderMark.size()> start{};
  if (file_->size() < static_cast<int64_t>(start.size())) return;
  file_->read_at(0, std::as_writable_bytes(std::span(start)));
  if (std::string_view(start.data(), start.size()) == kByteOrderMark) offset_ = start.size();
}

bool CsvReader::refill() {
  if (offset_ >= file_->size()) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) {
    if (buffer_.size() >= kMaxRecordBytes) {
      throw Error(ErrorKind::kData, name() + ": line " + std::to_string(next_line_) +
                                        ": expected a record of at most 1 MiB, received a longer "
                                        "one. Is a quote left open, or is this no CSV file?");
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
          throw Error(ErrorKind::kData, name() + ": line " + std::to_string(line_) +
                                            ": expected a quote that is closed, received the end "
                                            "of the file.");
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

// The content of a field that begins with a quote at `at`; moves `at` behind it.
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

void CsvReader::split(std::string_view record) {
  fields_.clear();
  if (unquoted_.size() < record.size()) unquoted_.resize(record.size());
  char* out = unquoted_.data();
  for (size_t at = 0; at <= record.size(); ++at) {
    size_t start = at;
    while (start < record.size() && is_blank(record[start]) && record[start] != delimiter_) ++start;
    if (start < record.size() && record[start] == '"') {
      fields_.push_back(take_quoted(record, start, out));
      at = std::min(record.find(delimiter_, start), record.size());
      continue;
    }
    at = std::min(record.find(delimiter_, at), record.size());
    fields_.push_back(start < at ? trimmed(record.substr(start, at - start)) : "");
  }
}

char guess_delimiter(const ByteReader& file) {
  constexpr int64_t kLookedAt = 16 << 10;
  std::string text(static_cast<size_t>(std::min(file.size(), kLookedAt)), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  text.resize(std::min(text.find('\n'), text.size()));
  char best = ',';
  int64_t most = 0;
  for (const char candidate : {',', ';', '\t', '|'}) {
    const int64_t count = std::count(text.begin(), text.end(), candidate);
    if (count > most) {
      best = candidate;
      most = count;
    }
  }
  return best;
}

bool parse_number(std::string_view text, double& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return false;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() && std::isfinite(value);
}

}  // namespace plimsoll::codec
