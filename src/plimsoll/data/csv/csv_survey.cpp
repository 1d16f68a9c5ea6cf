#include "data/csv/csv_survey.h"

#include <cmath>
#include <utility>

#include "codec/csv.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kWordsBytes = 224;  // of a column that keeps any

// The bytes of a value in a set, as the heap has it: a node, and its text where that is long.
int64_t value_bytes(std::string_view value) {
  constexpr int64_t kNode = 80;
  constexpr size_t kInside = 15;
  return value.size() > kInside ? kNode + static_cast<int64_t>(value.size() + 24) / 16 * 16 : kNode;
}

const FoundValue kNothing;

}  // namespace

void Moments::add(double value) {
  ++count_;
  const double distance = value - mean_;
  mean_ += distance / static_cast<double>(count_);
  squares_ += distance * (value - mean_);
}

double Moments::deviation() const {
  const double deviation = count_ > 0 ? std::sqrt(squares_ / static_cast<double>(count_)) : 0;
  return deviation > 0 ? deviation : 1;
}

bool ColumnSurvey::is_text() const {
  if (words_ == nullptr || style_ != NumberStyle::kPlain) return false;
  if (words_->first.line > 0) return true;
  return !any_number() && (words_->infinite.line > 0 || words_->missing.line > 0);
}

bool ColumnSurvey::has_numbers() const {
  return any_number() || (words_ != nullptr && words_->styled);
}

void ColumnSurvey::add_word(int64_t line, std::string_view field, StyleSet styles) {
  Words& own = words();
  const bool first = own.first.line == 0;
  own.first.note(line, field);
  if (first) {
    own.styles = styles_that_read(field, styles);
    own.styled = own.styles != 0;
  } else if (own.styles != 0) {
    own.styles = styles_that_read(field, own.styles);
  }
  if (own.styles == 0) own.culprit.note(line, field);
}

void ColumnSurvey::add(int64_t line, std::string_view field, StyleSet styles, int64_t& held) {
  const int missing = missing_among_numbers(field);
  if (missing >= 0) {
    words().missing.note(line, field);
    words().missing_words |= 1u << missing;
    return;
  }
  double value = 0;
  const bool text = words_ != nullptr && words_->first.line > 0;
  if (text) {
    if (words_->styles != 0) add_word(line, field, styles);
  } else if (codec::parse_number(field, value)) {
    numbers_.add(value);
  } else if (is_infinite(field)) {
    words().infinite.note(line, field);
  } else {
    add_word(line, field, styles);
  }
  keep(field, held);
}

void ColumnSurvey::keep(std::string_view field, int64_t& held) {
  if (overflown_) return;
  Words& own = words();
  if (own.values.find(field) != own.values.end()) return;
  if (own.values.empty()) held += kWordsBytes;
  own.values.emplace(field);
  held += value_bytes(field);
  const bool numbers = !is_text() || own.styles != 0;
  if (own.values.size() > (numbers ? kMaxNumbers : kMaxCategories)) give_up_values(held);
}

void ColumnSurvey::give_up_values(int64_t& held) {
  overflown_ = true;
  if (words_ == nullptr) return;
  if (!words_->values.empty()) held -= kWordsBytes;
  for (const std::string& value : words_->values) {
    held -= value_bytes(value);
  }
  words_->values.clear();
  const bool noted = words_->first.line + words_->infinite.line + words_->missing.line > 0;
  if (!noted) words_.reset();
}

void ColumnSurvey::settle(NumberStyle style, const Moments& numbers) {
  style_ = style;
  numbers_ = numbers;
}

void ColumnSurvey::settle_as_words(const FoundValue& culprit) {
  words().styles = 0;
  words().culprit.note(culprit.line, culprit.text);
}

std::set<std::string, std::less<>> ColumnSurvey::take_categories() {
  std::set<std::string, std::less<>> values = std::move(words().values);
  for (int i = 0; i < kMissingWords; ++i) {
    if ((words_->missing_words >> i & 1) != 0) values.emplace(missing_word(i));
  }
  return values;
}

const FoundValue& ColumnSurvey::culprit() const { return words_ ? words_->culprit : kNothing; }
const FoundValue& ColumnSurvey::first_word() const { return words_ ? words_->first : kNothing; }
const FoundValue& ColumnSurvey::infinite() const { return words_ ? words_->infinite : kNothing; }
const FoundValue& ColumnSurvey::missing() const { return words_ ? words_->missing : kNothing; }

void StyleSurvey::add(int64_t line, std::string_view field) {
  const StyleSet left = styles_that_read(field, styles_);
  if (left == 0) odd_.note(line, field);
  styles_ = left;
  for (int i = 0; i < kNumberStyles; ++i) {
    const auto style = static_cast<NumberStyle>(i);
    double value = 0;
    if ((styles_ & style_bit(style)) == 0 || !parse_number(field, style, value)) continue;
    numbers_[static_cast<size_t>(i)].add(value);
    if (shows_groups(field, style)) {
      shown_ |= style_bit(style);
    } else if (may_be_plain(field, style)) {
      ambiguous_ |= style_bit(style);
      in_two_.note(line, field);
    }
  }
}

StyleSet StyleSurvey::styles() const {
  return static_cast<StyleSet>(styles_ & (shown_ | ~ambiguous_));
}

}  // namespace plimsoll::data
