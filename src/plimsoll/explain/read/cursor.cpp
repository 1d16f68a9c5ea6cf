#include "explain/read/cursor.h"

#include <algorithm>

#include "explain/read/number.h"

namespace plimsoll::explain {

char Cursor::peek() {
  const std::string& text = document_->text();
  size_t at = at_;
  while (at < text.size() && text[at] == kSoftBreak) ++at;
  return at < text.size() ? text[at] : '\0';
}

void Cursor::skip_blanks() {
  const std::string& text = document_->text();
  while (at_ < text.size() && (text[at_] == ' ' || text[at_] == kSoftBreak)) ++at_;
}

bool Cursor::literal(std::string_view phrase) {
  const size_t end = document_->match(phrase, at_);
  if (end == std::string::npos) return false;
  at_ = end;
  return true;
}

bool Cursor::seek(std::string_view phrase, size_t reach) {
  const size_t stop = std::min(document_->record_end(at_), at_ + reach);
  const size_t found = document_->find(phrase, at_, stop);
  if (found == std::string::npos) return false;
  at_ = document_->match(phrase, found);
  return true;
}

std::optional<int64_t> Cursor::integer() {
  const std::string& text = document_->text();
  constexpr size_t kLongest = 32;
  std::string plain;
  std::vector<size_t> place;
  for (size_t at = at_; at < text.size() && plain.size() < kLongest; ++at) {
    if (text[at] == kSoftBreak) continue;
    if (text[at] == '\n') break;
    plain += text[at];
    place.push_back(at + 1);
  }
  size_t end = 0;
  std::string number = read_number(plain, end);
  if (number.empty()) return std::nullopt;
  if (const size_t point = number.find('.'); point != std::string::npos) {
    // Up to the decimals.
    const size_t decimals = number.size() - point;
    number.resize(point);
    end -= std::min(end, decimals);
  } else if (plain[end - 1] == '.') {
    --end;
  }
  size_t from = 0;
  const std::optional<int64_t> value = read_integer(number, from);
  if (value) at_ = place[end - 1];
  return value;
}

std::optional<int64_t> Cursor::inner_integer() {
  const std::optional<int64_t> value = integer();
  return document_->is_cut_at(at_) ? std::nullopt : value;
}

std::optional<Size> Cursor::size() {
  const std::string& text = document_->text();
  // Number and unit without soft breaks, and where each kept character stood.
  std::string plain;
  std::vector<size_t> place;
  size_t first_break = std::string::npos;
  for (size_t at = at_; at < text.size() && plain.size() < 48 && text[at] != '\n'; ++at) {
    if (text[at] == kSoftBreak) {
      first_break = std::min(first_break, plain.size());
      continue;
    }
    plain += text[at];
    place.push_back(at + 1);
  }
  size_t end = 0;
  std::optional<double> value = read_bytes(plain, end);
  if (!value) {
    // The unit may be the last word of its line, and the next line another sentence.
    plain.resize(std::min(plain.size(), first_break));
    value = read_bytes(plain, end);
  }
  if (!value) return std::nullopt;
  Size size;
  size.bytes = round_to_bytes(*value);
  size.text = plain.substr(0, end);
  const char unit_end = to_lower(size.text.back());
  const size_t letters =
      std::find_if(size.text.begin(), size.text.end(), is_alpha) - size.text.begin();
  const std::string_view unit = std::string_view(size.text).substr(letters);
  size.exact = unit.size() == 1 ? unit_end == 'b' : equals_ignoring_case(unit.substr(0, 4), "byte");
  at_ = place[end - 1];
  return size;
}

std::optional<std::vector<int64_t>> Cursor::shape() {
  const size_t begin = at_;
  const char open = peek();
  if (open != '[' && open != '(') return std::nullopt;
  const char close = open == '[' ? ']' : ')';
  skip_blanks();
  ++at_;
  std::vector<int64_t> dims;
  for (;;) {
    skip_blanks();
    if (peek() == close) {
      skip_blanks();
      ++at_;
      return dims;
    }
    if (peek() == ',') {
      skip_blanks();
      ++at_;
      continue;
    }
    // Not integer(): in "[8,256,256]" the commas separate.
    const std::string& text = document_->text();
    std::string digits;
    for (; at_ < text.size() && digits.size() < 19; ++at_) {
      if (is_digit(text[at_])) {
        digits += text[at_];
      } else if (text[at_] != kSoftBreak) {
        break;
      }
    }
    size_t from = 0;
    const std::optional<int64_t> dim = read_integer(digits, from);
    if (!dim || dims.size() >= 32) {
      at_ = begin;
      return std::nullopt;
    }
    dims.push_back(*dim);
  }
}

std::string Cursor::until(std::string_view stops, size_t longest) {
  const std::string& text = document_->text();
  std::string result;
  for (; at_ < text.size() && result.size() < longest; ++at_) {
    const char c = text[at_];
    if (c == kSoftBreak) continue;
    if (c == '\n' || stops.find(c) != std::string_view::npos) break;
    result += c;
  }
  return result;
}

std::string Cursor::word(std::string_view stops, bool (*is_whole)(std::string_view)) {
  const std::string& text = document_->text();
  const size_t begin = at_;
  std::string first;
  for (; at_ < text.size() && first.size() < 400; ++at_) {
    const char c = text[at_];
    if (c == kSoftBreak || c == '\n' || stops.find(c) != std::string_view::npos) break;
    first += c;
  }
  const bool broken = at_ < text.size() && text[at_] == kSoftBreak;
  if (!broken || is_whole == nullptr || is_whole(first)) return first;
  at_ = begin;
  return until(stops);
}

}  // namespace plimsoll::explain
