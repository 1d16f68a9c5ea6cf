#pragma once

// What a pass over a table learns of one column. Internal to data.
//
// Distinct values are kept in case that the column turns out to be one of categories: of numbers
// while they are few, of words up to a bound, all columns together within one budget. Where a
// column's first word may be a number in another style (csv_values.h) the styles that read all of
// its words are kept track of, and a second pass over such columns decides.

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "data/csv/csv_values.h"

namespace plimsoll::data {

// A value and where it stands; line 0: none.
struct FoundValue {
  int64_t line = 0;
  std::string text;
  void note(int64_t at, std::string_view what) {
    if (line == 0) *this = {at, std::string(what)};
  }
};

// Count, mean and deviation, a value at a time.
class Moments {
 public:
  void add(double value);
  int64_t count() const { return count_; }
  double mean() const { return mean_; }
  double deviation() const;  // 1 where all numbers are equal

 private:
  int64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // of distances from the mean
};

class ColumnSurvey {
 public:
  static constexpr size_t kMaxCategories = 10'000;
  static constexpr size_t kMaxNumbers = 1000;  // that are kept in case that they are categories
  static constexpr int64_t kMaxCategoryBytes = 8 << 20;

  // Takes a value that is not missing. `held` counts what all columns keep.
  void add(int64_t line, std::string_view field, StyleSet styles, int64_t& held);
  void give_up_values(int64_t& held);

  const Moments& numbers() const { return numbers_; }
  bool any_number() const { return numbers_.count() > 0; }
  // Words were met; infinities alone are words, as are marks of what is missing.
  bool is_text() const;
  // Styles that read all words so far; 0: they are words.
  StyleSet styles() const { return words_ == nullptr ? StyleSet{0} : words_->styles; }
  void settle(NumberStyle style, const Moments& numbers);  // after the second pass
  void settle_as_words(const FoundValue& culprit);
  NumberStyle style() const { return style_; }
  // Some values are numbers, of whatever style.
  bool has_numbers() const;
  bool lost_values() const { return overflown_; }  // too many to keep
  size_t kept_values() const { return words_ == nullptr ? 0 : words_->values.size(); }
  std::set<std::string, std::less<>> take_categories();

  const FoundValue& culprit() const;  // what made it words
  const FoundValue& first_word() const;
  const FoundValue& infinite() const;
  const FoundValue& missing() const;  // a word for it, missing among numbers

 private:
  struct Words {
    std::set<std::string, std::less<>> values;
    FoundValue first;
    FoundValue culprit;
    FoundValue infinite;
    FoundValue missing;
    uint32_t missing_words = 0;  // bits of missing_among_numbers
    StyleSet styles = 0;
    bool styled = false;  // the first word is a number of some style
  };

  Words& words() {
    if (words_ == nullptr) words_ = std::make_unique<Words>();
    return *words_;
  }
  void add_word(int64_t line, std::string_view field, StyleSet styles);
  void keep(std::string_view field, int64_t& held);

  Moments numbers_;
  std::unique_ptr<Words> words_;
  bool overflown_ = false;
  NumberStyle style_ = NumberStyle::kPlain;
};

// The second pass: which style a column's values are in, if any reads them all.
class StyleSurvey {
 public:
  explicit StyleSurvey(StyleSet styles) : styles_(styles) {}
  void add(int64_t line, std::string_view field);
  // The styles of all values; 0 where none is left. A style with groups is not taken where a value
  // may be a plain number as well and none shows that it is not.
  StyleSet styles() const;
  const Moments& numbers(NumberStyle style) const { return numbers_[static_cast<size_t>(style)]; }
  // A value that is in none of them, or one that may be in two; line 0: there is none.
  const FoundValue& odd() const { return odd_.line > 0 ? odd_ : in_two_; }

 private:
  StyleSet styles_;
  StyleSet shown_ = 0;      // groups that are groups
  StyleSet ambiguous_ = 0;  // that may be decimals
  std::array<Moments, kNumberStyles> numbers_;
  FoundValue odd_;
  FoundValue in_two_;
};

}  // namespace plimsoll::data
